// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <compare>
#include <cstdint>
#include <utility>

#include "storage/memory/payload.h"

namespace afterimage {

/// One slot of a cache's table. The generation distinguishes it from earlier uses of the same
/// index.
struct SlotId {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  auto operator<=>(const SlotId&) const = default;
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
