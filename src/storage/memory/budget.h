// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <utility>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

class Reservation;

/// A hard cap on bytes. Room is promised before bytes exist and given back when they are gone, so
/// that committed + reserved + in flight never exceeds the capacity, at any moment, whatever
/// threads do.
///
/// Errors   kNoSpace: less is free than asked for. Whoever asked evicts and asks again, or goes
///          without.
/// Threads  Any; lock-free.
class MemoryBudget {
 public:
  explicit MemoryBudget(Bytes capacity) : capacity_(capacity.value()) {}
  /// Every reservation must have been given back.
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  Result<Reservation> reserve(Bytes bytes);

  [[nodiscard]] Bytes capacity() const { return Bytes(capacity_.load()); }
  [[nodiscard]] Bytes used() const { return Bytes(used_.load()); }
  [[nodiscard]] Bytes peak() const { return Bytes(peak_.load()); }
  /// Nothing is taken away from those who hold it: below used(), reserve() fails until enough came
  /// back.
  void set_capacity(Bytes capacity) { capacity_ = capacity.value(); }

 private:
  friend class Reservation;
  void give_back(Bytes bytes) { used_.fetch_sub(bytes.value()); }

  std::atomic<Bytes::rep> capacity_;
  std::atomic<Bytes::rep> used_{0};
  std::atomic<Bytes::rep> peak_{0};
};

/// Bytes promised by a budget. Move-only; dropping it is the only way to give them back.
class [[nodiscard]] Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0_B)) {}
  Reservation& operator=(Reservation other) noexcept {
    std::swap(budget_, other.budget_);  // `other` leaves with the old promise and gives it back
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Reservation() {
    if (budget_ != nullptr) budget_->give_back(bytes_);
  }

  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  friend class MemoryBudget;
  Reservation(MemoryBudget& budget, Bytes bytes) : budget_(&budget), bytes_(bytes) {}

  MemoryBudget* budget_ =
      nullptr;  // outlives every reservation; its destructor checks that none is left
  Bytes bytes_;
};

}  // namespace afterimage
