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

/// What a replayed cache holds, by id, in some unit of size. This one never evicts.
class ReplayStore {
 public:
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  /// A request's use of one thing.
  struct Use {
    std::uint32_t id = 0;
    std::uint32_t depth = 0;
    std::uint32_t next_use = kNever;  // the request that will use it next; for those who may know
    std::uint64_t size = 1;
    std::optional<std::uint32_t> parent;  // the id before it
    EntryFacts facts;                     // without key and parent, which the store knows
  };

  explicit ReplayStore(std::uint32_t ids) : things_(ids) {}
  virtual ~ReplayStore() = default;

  [[nodiscard]] bool holds(std::uint32_t id) const { return things_[id].present; }
  [[nodiscard]] std::uint64_t evictions() const { return evictions_; }

  virtual void begin_request(const RequestFacts& /*facts*/) {}
  /// Deepest first.
  virtual void use(const Use& use) { hold(use); }
  /// Things leave until at most `capacity` is held.
  virtual void settle(std::uint64_t /*capacity*/) {}

 protected:
  struct Thing {
    std::uint64_t size = 0;
    std::uint32_t generation = 0;
    bool present = false;
  };
  [[nodiscard]] std::uint64_t held() const { return held_; }
  [[nodiscard]] const Thing& thing(std::uint32_t id) const { return things_[id]; }
  /// False: it was here already.
  bool hold(const Use& use);
  void drop(std::uint32_t id);

 private:
  std::vector<Thing> things_;  // by id
  std::uint64_t held_ = 0;
  std::uint64_t evictions_ = 0;
};

/// A policy decides.
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

/// Knows the future: what is used again last leaves first (Belady), of those the deepest. A block
/// is never used later than what stands on it, so prefixes stay whole; for things of one size no
/// choice hits more.
class MinStore final : public ReplayStore {
 public:
  explicit MinStore(std::uint32_t ids) : ReplayStore(ids) {}
  void use(const Use& use) override;
  void settle(std::uint64_t capacity) override;

 private:
  // A use overtakes the one before it, which stays here below all that is still to come: a next use
  // that is over is earlier than every one that is not.
  std::priority_queue<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> leaving_;
};

}  // namespace afterimage
