// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "afterimage/ids.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"

namespace afterimage {

/// One or more tensors with dtype, shape and checksum that nobody changes: the content of a cache
/// entry. A copy, so that the engine cannot change it through its own buffers; or memory that a
/// tier has filled for this reader alone.
///
/// Shape    Each tensor starts at a multiple of kAlignment; the gaps are zero.
/// Unit     bytes() is what the budget is charged: the tensors' exact sizes, each rounded up to
///          kAlignment, or the size of the memory taken over. Any rank, any number of tensors.
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

  /// Takes over `memory`, in which `stored` holds `tensors`; nobody else may write to it. Requires
  /// that `room` is exactly its size.
  static Payload taken_over(std::shared_ptr<AlignedBytes> memory, std::span<const std::byte> stored,
                            TensorViews tensors, Reservation room);

  [[nodiscard]] std::span<const TensorView> tensors() const { return views_; }
  [[nodiscard]] Bytes bytes() const { return charged_; }
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

  Bytes charged_;
  Reservation room_;
  std::unique_ptr<std::byte, Free> bytes_;
  std::shared_ptr<AlignedBytes> memory_;  // instead of both, if taken over
  std::span<const std::byte> stored_bytes_;
  TensorViews views_;
  Checksum stored_;
};

/// A cache that hands out pins. unpin() is called on whichever thread drops the pin.
class PinOwner {
 public:
  virtual void unpin(SlotId slot) = 0;

 protected:
  ~PinOwner() = default;
};

/// Prevents one entry from being moved or evicted while it lives. Move-only; dropping it is the
/// only way to unpin.
///
/// Threads  As its owner's.
class [[nodiscard]] Pin {
 public:
  Pin(PinOwner& owner, SlotId slot, const Payload& payload)
      : owner_(&owner), slot_(slot), payload_(&payload) {}
  Pin(Pin&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        slot_(other.slot_),
        payload_(other.payload_) {}
  Pin& operator=(Pin other) noexcept {
    std::swap(owner_, other.owner_);  // `other` leaves with the old entry and unpins it
    std::swap(slot_, other.slot_);
    std::swap(payload_, other.payload_);
    return *this;
  }
  ~Pin() {
    if (owner_ != nullptr) owner_->unpin(slot_);
  }

  [[nodiscard]] SlotId slot() const { return slot_; }
  [[nodiscard]] const Payload& operator*() const { return *payload_; }
  [[nodiscard]] const Payload* operator->() const { return payload_; }

  /// The same pin, released through `owner` instead: for a cache in front of another cache.
  [[nodiscard]] static Pin handed_over(Pin pin, PinOwner& owner) {
    pin.owner_ = &owner;
    return pin;
  }

 private:
  PinOwner* owner_;  // outlives every Pin; its destructor checks that none is left
  SlotId slot_;
  const Payload* payload_;
};

}  // namespace afterimage
