// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <utility>

#include "afterimage/units.h"
#include "policy/eviction/request_facts.h"
#include "storage/memory/pin.h"

namespace afterimage {

/// What a match pins: a node with everything above it, and optionally one snapshot.
struct PrefixHold {
  SlotId node;
  std::optional<SlotId> snapshot;
};

/// Hands out matches and receives them when they are dropped.
class PrefixOwner {
 public:
  /// Unpins. `request` is the request whose use the eviction policy has not seen yet, or nullptr.
  virtual void release(const PrefixHold& hold, const RequestFacts* request) = 0;

 protected:
  ~PrefixOwner() = default;
};

/// How far a prompt can be resumed, and a pin on the KV for it. Move-only; dropping it unpins.
/// A miss is a match with resume() == 0; it pins nothing.
///
/// Policy   A match belongs to one request. The eviction policy sees that request once: when its
///          own KV is inserted with this match, or else when the match is dropped.
/// Threads  As its owner says.
class [[nodiscard]] PrefixMatch {
 public:
  explicit PrefixMatch(TokenCount matched, const RequestFacts& facts = {})
      : matched_(matched), facts_(facts) {}
  /// A pin that does not count as a use.
  PrefixMatch(PrefixOwner& owner, const PrefixHold& hold, TokenCount matched)
      : owner_(&owner), hold_(hold), matched_(matched) {}
  PrefixMatch(PrefixOwner& owner, const PrefixHold& hold, TokenCount resume, TokenCount matched,
              const RequestFacts& facts)
      : owner_(&owner),
        hold_(hold),
        resume_(resume),
        matched_(matched),
        facts_(facts),
        unreported_(true) {}
  PrefixMatch(PrefixMatch&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        hold_(other.hold_),
        resume_(std::exchange(other.resume_, TokenCount(0))),
        matched_(other.matched_),
        facts_(other.facts_),
        unreported_(other.unreported_) {}
  PrefixMatch& operator=(PrefixMatch other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(hold_, other.hold_);
    std::swap(resume_, other.resume_);
    std::swap(matched_, other.matched_);
    std::swap(facts_, other.facts_);
    std::swap(unreported_, other.unreported_);
    return *this;
  }
  ~PrefixMatch() {
    if (owner_ != nullptr) owner_->release(hold_, unreported_ ? &facts_ : nullptr);
  }

  /// The length at which an engine can resume: exactly this many tokens are restored.
  [[nodiscard]] TokenCount resume() const { return resume_; }
  /// Leading tokens that equal those of some cached sequence, resumable or not.
  [[nodiscard]] TokenCount matched() const { return matched_; }
  [[nodiscard]] bool holds() const { return owner_ != nullptr; }
  /// Requires holds().
  [[nodiscard]] const PrefixHold& hold() const { return hold_; }

  [[nodiscard]] const RequestFacts& facts() const { return facts_; }
  /// The policy has seen this use, or it does not count as one.
  void mark_reported() { unreported_ = false; }

  /// The same pin, released through `owner`: for a thread-safe front of the cache.
  [[nodiscard]] static PrefixMatch handed_over(PrefixMatch match, PrefixOwner& owner) {
    if (match.owner_ != nullptr) match.owner_ = &owner;
    return match;
  }

 private:
  PrefixOwner* owner_ = nullptr;  // outlives every match; its destructor checks that none is alive
  PrefixHold hold_{};
  TokenCount resume_{};
  TokenCount matched_{};
  RequestFacts facts_;
  bool unreported_ = false;
};

}  // namespace afterimage
