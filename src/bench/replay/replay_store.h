// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

#include "afterimage/eviction_policy.h"

namespace afterimage {

/// The contents of a replayed cache by id, with sizes in any unit. This one never evicts.
class ReplayStore {
 public:
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  /// One use of an entry by a request.
  struct Use {
    std::uint32_t id = 0;
    std::uint32_t depth = 0;
    /// The next request that will use it; for stores that know the future.
    std::uint32_t next_use = kNever;
    std::uint64_t size = 1;
    std::optional<std::uint32_t> parent;  // id of the preceding block
    EntryFacts facts;                     // without key and parent, which the store fills in
  };

  explicit ReplayStore(std::uint32_t ids) : entries_(ids) {}
  virtual ~ReplayStore() = default;

  [[nodiscard]] bool holds(std::uint32_t id) const { return entries_[id].present; }
  [[nodiscard]] std::uint64_t evictions() const { return evictions_; }

  virtual void begin_request(const RequestFacts& /*facts*/) {}
  /// Records a use; a request's uses come deepest first.
  virtual void use(const Use& use) { insert(use); }
  /// Evicts until at most `capacity` is held.
  virtual void settle(std::uint64_t /*capacity*/) {}

 protected:
  struct StoredEntry {
    std::uint64_t size = 0;
    std::uint32_t generation = 0;
    bool present = false;
  };
  [[nodiscard]] std::uint64_t held() const { return held_; }
  [[nodiscard]] const StoredEntry& entry(std::uint32_t id) const { return entries_[id]; }
  /// False: already present.
  bool insert(const Use& use);
  void erase(std::uint32_t id);

 private:
  std::vector<StoredEntry> entries_;  // by id
  std::uint64_t held_ = 0;
  std::uint64_t evictions_ = 0;
};

/// A store with an eviction policy.
class PolicyStore final : public ReplayStore {
 public:
  PolicyStore(std::uint32_t ids, std::unique_ptr<EvictionPolicy> policy)
      : ReplayStore(ids), policy_(std::move(policy)) {}
  void begin_request(const RequestFacts& facts) override { policy_->begin_request(facts); }
  void use(const Use& use) override;
  void settle(std::uint64_t capacity) override;

 private:
  std::unique_ptr<EvictionPolicy> policy_;
};

/// Knows the future: evicts the entry whose next use is farthest (Belady), the deepest of those
/// first. A block is never used later than the blocks after it, so prefixes stay whole; for entries
/// of equal size no policy hits more often.
class MinStore final : public ReplayStore {
 public:
  explicit MinStore(std::uint32_t ids) : ReplayStore(ids) {}
  void use(const Use& use) override;
  void settle(std::uint64_t capacity) override;

 private:
  // Stale entries are not removed: a next use in the past is smaller than any in the future, so
  // they sort below all valid ones.
  std::priority_queue<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> leaving_;
};

}  // namespace afterimage
