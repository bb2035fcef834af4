// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "afterimage/units.h"
#include "policy/eviction/request_facts.h"
#include "storage/memory/pin.h"

namespace afterimage {

/// What a match keeps where it is: a node with all that stands before it, and one snapshot.
struct PrefixHold {
  SlotId node;
  std::optional<SlotId> snapshot;
};

/// Whoever hands out matches, and takes them back when they are let go of.
class PrefixOwner {
 public:
  /// `request` is the one whose use this was, if the eviction policy has not heard of it yet.
  virtual void let_go(const PrefixHold& hold, const RequestFacts* request) = 0;

 protected:
  ~PrefixOwner() = default;
};

/// How far a prompt can be resumed, and the hold on what that takes. Move-only; dropping it unpins.
/// A miss is a match with resume() == 0; it holds nothing.
///
/// A match is one request's. What it holds counts as used when the request's own KV is inserted
/// with it, or else when it is let go of: a policy hears of a request once, and of all of it.
///
/// Threads  As its owner says.
class [[nodiscard]] PrefixMatch {
 public:
  explicit PrefixMatch(TokenCount matched, const RequestFacts& facts = {})
      : matched_(matched), facts_(facts) {}
  /// A hold that is nobody's use.
  PrefixMatch(PrefixOwner& owner, const PrefixHold& hold, TokenCount matched)
      : owner_(&owner), hold_(hold), matched_(matched) {}
  PrefixMatch(PrefixOwner& owner, const PrefixHold& hold, TokenCount resume, TokenCount matched,
              const RequestFacts& facts)
      : owner_(&owner),
        hold_(hold),
        resume_(resume),
        matched_(matched),
        facts_(facts),
        untold_(true) {}
  PrefixMatch(PrefixMatch&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        hold_(other.hold_),
        resume_(std::exchange(other.resume_, TokenCount(0))),
        matched_(other.matched_),
        facts_(other.facts_),
        untold_(other.untold_) {}
  PrefixMatch& operator=(PrefixMatch other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(hold_, other.hold_);
    std::swap(resume_, other.resume_);
    std::swap(matched_, other.matched_);
    std::swap(facts_, other.facts_);
    std::swap(untold_, other.untold_);
    return *this;
  }
  ~PrefixMatch() {
    if (owner_ != nullptr) owner_->let_go(hold_, untold_ ? &facts_ : nullptr);
  }

  /// The length at which an engine can go on: exactly so many tokens are restored.
  [[nodiscard]] TokenCount resume() const { return resume_; }
  /// Leading tokens that are those of some cached sequence, resumable or not.
  [[nodiscard]] TokenCount matched() const { return matched_; }
  [[nodiscard]] bool holds() const { return owner_ != nullptr; }
  /// Requires holds().
  [[nodiscard]] const PrefixHold& hold() const { return hold_; }

  [[nodiscard]] const RequestFacts& facts() const { return facts_; }
  /// The policy knows of this use, or it was none.
  void mark_told() { untold_ = false; }

  /// The same hold, to be let go of through `owner`: for a front that stands before the cache.
  [[nodiscard]] static PrefixMatch handed_over(PrefixMatch match, PrefixOwner& owner) {
    if (match.owner_ != nullptr) match.owner_ = &owner;
    return match;
  }

 private:
  PrefixOwner* owner_ = nullptr;  // outlives every match; its destructor checks that none is left
  PrefixHold hold_{};
  TokenCount resume_{};
  TokenCount matched_{};
  RequestFacts facts_;
  bool untold_ = false;
};

/// Rows [first, first + count) of one group, as they were captured.
struct RowSlice {
  TokenCount first{};
  TokenCount count{};
  std::span<const std::byte> bytes;  // count × row_bytes
};

/// What one group needs to go on. Bytes belong to the cache and stay while the match is held.
struct GroupKv {
  std::vector<RowSlice> rows;  // full: [0, length); sliding: at least the last `window` of those
  std::span<const std::byte> state;  // recurrent: after exactly `length` tokens
};

/// Everything an engine needs to go on at `length`; groups as in the layout. Shared ones are empty.
struct CachedKv {
  TokenCount length{};
  std::vector<GroupKv> groups;
};

}  // namespace afterimage
