// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <utility>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

class Reservation;

/// A hard cap on bytes. Space is reserved before bytes exist and released when they are gone, so
/// committed + reserved + in flight never exceeds the capacity, at any moment, under any
/// concurrency.
///
/// Errors   kNoSpace: less is free than was asked for. The caller evicts and retries, or does
///          without.
/// Threads  Any; lock-free.
class MemoryBudget {
 public:
  explicit MemoryBudget(Bytes capacity) : capacity_(capacity.value()) {}
  /// Requires that every reservation has been released.
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  Result<Reservation> reserve(Bytes bytes);

  [[nodiscard]] Bytes capacity() const { return Bytes(capacity_.load()); }
  [[nodiscard]] Bytes used() const { return Bytes(used_.load()); }
  [[nodiscard]] Bytes peak() const { return Bytes(peak_.load()); }
  /// Does not take bytes back from reservations: while used() exceeds the new capacity, reserve()
  /// fails.
  void set_capacity(Bytes capacity) { capacity_ = capacity.value(); }

 private:
  friend class Reservation;
  void give_back(Bytes bytes) { used_.fetch_sub(bytes.value()); }

  std::atomic<Bytes::rep> capacity_;
  std::atomic<Bytes::rep> used_{0};
  std::atomic<Bytes::rep> peak_{0};
};

/// Bytes reserved in a budget. Move-only; dropping it is the only way to release them.
class [[nodiscard]] Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0_B)) {}
  Reservation& operator=(Reservation other) noexcept {
    std::swap(budget_, other.budget_);  // `other` leaves with the old reservation and releases it
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

  MemoryBudget* budget_ = nullptr;  // outlives every reservation; its destructor checks that
  Bytes bytes_;
};

}  // namespace afterimage
