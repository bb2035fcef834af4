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

/// Page-aligned memory, as direct I/O requires, together with the budget reservation that pays for
/// it. Not initialised. From 2 MiB on it uses huge pages where the system has them: devices
/// transfer one of those faster than as many pages of 4 KiB.
///
/// Errors   kNoSpace: the budget or the machine has not enough memory.
/// Threads  Any, like plain memory.
class AlignedBytes {
 public:
  static constexpr std::size_t kAlignment = 4096;

  static Result<std::shared_ptr<AlignedBytes>> create(std::size_t size, MemoryBudget& budget);

  [[nodiscard]] std::span<std::byte> bytes() { return {memory_.get(), size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {memory_.get(), size_}; }
  /// Moves the charge to another budget. `room` reserves as many bytes.
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
