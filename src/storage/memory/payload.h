// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "afterimage/result.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"
#include "storage/memory/budget.h"

namespace afterimage {

/// An immutable copy of one or more tensors with dtype, shape and checksum: the content of a cache
/// entry. A copy, so that the engine cannot change it through its own buffers.
///
/// Shape    Each tensor starts at a multiple of kAlignment; the gaps are zero.
/// Unit     bytes() is what the budget is charged: the tensors' exact sizes, each rounded up to
///          kAlignment. Any rank, any number of tensors.
/// Errors   kNoSpace: the machine has no memory left, or the reservation is too small.
/// Threads  Any; immutable.
class Payload {
 public:
  static constexpr std::uint64_t kAlignment = 64;
  static constexpr std::uint64_t padded(std::uint64_t size) {
    return (size + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// What copy_of will charge for these tensors.
  static Bytes bytes_needed(std::span<const TensorView> tensors);
  /// Copies `tensors` into memory reserved by `room`, and holds the reservation while the payload
  /// lives. Requires that `room` is exactly bytes_needed(tensors).
  static Result<Payload> copy_of(std::span<const TensorView> tensors, Reservation room);

  [[nodiscard]] std::span<const TensorView> tensors() const { return views_; }
  [[nodiscard]] Bytes bytes() const { return room_.bytes(); }
  /// Recomputes the checksum over bytes, dtypes and shapes. False: the payload is damaged and must
  /// not be used.
  [[nodiscard]] bool intact() const;

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  struct Checksum {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    bool operator==(const Checksum&) const = default;
  };
  Payload() = default;
  [[nodiscard]] Checksum checksum() const;

  Reservation room_;
  std::unique_ptr<std::byte, Free> bytes_;
  TensorViews views_;
  Checksum stored_;
};

}  // namespace afterimage
