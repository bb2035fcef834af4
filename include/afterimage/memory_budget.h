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

/// The cheapest entry that one cache could evict now.
struct NextToLeave {
  Bytes resident;               // of the whole cache
  std::optional<double> worth;  // as EvictionPolicy::victim_worth says
};

/// A cache that charges a budget which others charge, too.
///
/// Threads  Any; no call waits for another sharer.
class BudgetClient {
 public:
  virtual ~BudgetClient() = default;
  /// nullopt: nothing can leave.
  [[nodiscard]] virtual std::optional<NextToLeave> eviction_candidate() = 0;
  /// Evicts what is worth least until so many bytes are free again. Returns what was freed.
  virtual Bytes evict_bytes(Bytes wanted) = 0;
  /// Evicts until the budget's use is within its capacity, floors or no floors.
  virtual Bytes trim_to_budget() = 0;
  /// While it is blocked nothing new is kept. What is there is found, erased and evicted as ever.
  virtual void block_admission(bool blocked) = 0;
};

/// One memory for several caches: whoever needs room gets it from the cache whose next entry is
/// worth least, its own or another's. Where policies do not weigh, from the cache that holds most.
///
/// Errors   None. What cannot be freed stays, and whoever asked goes without.
/// Threads  Any, once all have joined. Nothing is locked here; no sharer is called with a lock of
///          its own held.
/// Cost     One look at each sharer for every 4 MiB freed.
class SharedBudget {
 public:
  /// `budget` outlives this.
  explicit SharedBudget(MemoryBudget& budget) : budget_(budget) {}

  /// Before anybody calls anything else; the sharer outlives the last call.
  void join(BudgetClient& sharer) { sharers_.push_back(&sharer); }

  /// Frees what lacks for so many bytes. For newcomers: asked before their cache makes room itself,
  /// which then finds it made. Nobody leaves for what is larger than the budget.
  void make_room(Bytes bytes);
  /// Evicts until no more is used than the capacity, but for what is pinned. Returns what was
  /// freed.
  Bytes obey();
  void block_admission(bool blocked);

  [[nodiscard]] MemoryBudget& budget() const { return budget_; }

 private:
  template <typename Excess>
  Bytes shed_while(const Excess& excess);

  MemoryBudget& budget_;
  std::vector<BudgetClient*> sharers_;
};

}  // namespace afterimage
