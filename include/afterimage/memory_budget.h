// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "afterimage/tensor.h"
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

}  // namespace afterimage
