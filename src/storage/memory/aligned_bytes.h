// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include "afterimage/result.h"
#include "storage/memory/budget.h"

namespace afterimage {

/// Bytes in one piece of memory that starts at a page, as direct I/O wants them, together with the
/// promise of a budget that pays for them. Not initialised. From 2 MiB on they are on huge pages
/// where the system has them: the device takes those in faster than as many pages of 4 KiB.
///
/// Errors   kNoSpace: the budget, or the machine, has no room.
/// Threads  Any, as of memory.
class AlignedBytes {
 public:
  static constexpr std::size_t kAlignment = 4096;

  static Result<std::shared_ptr<AlignedBytes>> create(std::size_t size, MemoryBudget& budget);

  [[nodiscard]] std::span<std::byte> bytes() { return {memory_.get(), size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {memory_.get(), size_}; }
  /// Another budget pays from now on. `room` is of as many bytes.
  void charge(Reservation room) { room_ = std::move(room); }

 private:
  struct Free {
    std::align_val_t alignment{kAlignment};
    void operator()(std::byte* memory) const { ::operator delete(memory, alignment); }
  };
  AlignedBytes(std::byte* memory, std::align_val_t alignment, std::size_t size, Reservation room)
      : room_(std::move(room)), memory_(memory, Free{alignment}), size_(size) {}

  Reservation room_;
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_;
};

}  // namespace afterimage
