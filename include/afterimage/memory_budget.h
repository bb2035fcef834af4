// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

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

/// The cheapest entry that one cache could evict now.
struct EvictionCandidate {
  Bytes resident;               // of the whole cache
  std::optional<double> worth;  // EvictionPolicy::victim_worth
  double overuse = 0;           // EvictionPolicy::victim_overuse
};

/// A cache that shares a memory budget with others.
///
/// Threads  Any; no call waits for another client.
class BudgetClient {
 public:
  virtual ~BudgetClient() = default;
  /// nullopt: nothing can be evicted. Frees some entries that no request can use any more, such as
  /// expired ones, if there are any.
  [[nodiscard]] virtual std::optional<EvictionCandidate> eviction_candidate() = 0;
  /// Evicts the entries of least worth until `wanted` bytes are freed. Returns the bytes freed.
  virtual Bytes evict_bytes(Bytes wanted) = 0;
  /// Evicts until the budget's use is within its capacity, regardless of floors.
  virtual Bytes trim_to_budget() = 0;
  /// Evicts the entries that were last used before `since`, on the clock of the requests. Returns
  /// the bytes freed. A client that keeps no times of use evicts nothing.
  virtual Bytes evict_idle(Duration /*since*/) { return 0_B; }
  /// While admission is blocked, nothing new is cached. Look-ups, erasing and eviction go on.
  virtual void block_admission(bool blocked) = 0;
};

/// One memory budget for several caches. Space is freed in the cache whose eviction candidate
/// belongs to the tenant that exceeds its share the most; if none does, whose candidate has the
/// least worth; if policies do not report a worth, in the cache that holds the most bytes.
///
/// Errors   None. If not enough can be freed, the caller's own reservation fails.
/// Threads  Any, once all clients have joined. This class takes no lock, and the caller must not
///          hold a client's lock.
/// Cost     One call to each client for every 4 MiB freed.
class SharedBudget {
 public:
  /// `budget` outlives this.
  explicit SharedBudget(MemoryBudget& budget) : budget_(budget) {}

  /// Call before any other method. The client outlives the last call.
  void join(BudgetClient& client) { clients_.push_back(&client); }

  /// Evicts until `bytes` more fit into the budget. A cache calls it before it reserves space for a
  /// new entry. Evicts nothing for an entry that is larger than the budget.
  void make_room(Bytes bytes);
  /// Evicts until the use is within the capacity; pinned entries stay. Returns the bytes freed.
  Bytes obey();
  /// Evicts what was last used before `since`. Returns the bytes freed.
  Bytes evict_idle(Duration since);
  void block_admission(bool blocked);

  [[nodiscard]] MemoryBudget& budget() const { return budget_; }

 private:
  template <typename Excess>
  Bytes evict_while(const Excess& excess);

  MemoryBudget& budget_;
  std::vector<BudgetClient*> clients_;
};

}  // namespace afterimage
