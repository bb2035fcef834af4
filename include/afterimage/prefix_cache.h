// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/eviction_policy.h"
#include "afterimage/kv.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/units.h"

namespace afterimage {

struct PrefixExplanation;

/// Hands out matches and receives them when they are dropped.
class PrefixOwner {
 public:
  /// What a match pins: a node with everything above it, and optionally one snapshot.
  struct Hold {
    SlotId node;
    std::optional<SlotId> snapshot;
  };
  /// Unpins. `request` is the request whose use the eviction policy has not seen yet, or nullptr.
  virtual void release(const Hold& hold, const RequestFacts* request) = 0;

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
  PrefixMatch(PrefixOwner& owner, const PrefixOwner::Hold& hold, TokenCount matched)
      : owner_(&owner), hold_(hold), matched_(matched) {}
  PrefixMatch(PrefixOwner& owner, const PrefixOwner::Hold& hold, TokenCount resume,
              TokenCount matched, const RequestFacts& facts)
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
  [[nodiscard]] const PrefixOwner::Hold& hold() const { return hold_; }

  [[nodiscard]] const RequestFacts& facts() const { return facts_; }
  /// The policy has seen this use, or it does not count as one.
  void mark_reported() { unreported_ = false; }

 private:
  PrefixOwner* owner_ = nullptr;  // outlives every match; its destructor checks that none is alive
  PrefixOwner::Hold hold_{};
  TokenCount resume_{};
  TokenCount matched_{};
  RequestFacts facts_;
  bool unreported_ = false;
};

struct PrefixCacheOptions {
  /// Limit on resident leaf sequences: those that no other cached sequence extends. At least 1.
  EntryCount max_sequences = EntryCount::max();
  /// Limit on resident positions; shared prefixes count once. At least 1.
  std::uint64_t max_tokens = UINT64_MAX;
  std::unique_ptr<EvictionPolicy> policy;  // nullptr: worth
  /// Whose KV a namespace has, for tenants' shares of the memory. Empty: nobody's. Called when the
  /// namespace gets its first entry.
  std::function<EntryLabel(const NamespaceId&)> owner_of = {};
  /// The budget that other caches share and that they free memory in. nullptr: not shared.
  SharedBudget* shared = nullptr;
};

struct PrefixInsertion {
  TokenCount had{};             // leading tokens that were already cached
  TokenCount added{};           // tokens newly cached
  std::uint64_t snapshots = 0;  // newly cached
  Bytes bytes;                  // charged for the additions
};

/// Counters run over the cache's lifetime.
struct PrefixCacheStats {
  std::uint64_t hits = 0;  // matches with a resume point
  std::uint64_t misses = 0;
  std::uint64_t tokens_reused = 0;
  std::uint64_t insertions = 0;
  std::uint64_t refused = 0;    // insertions that did not fit
  std::uint64_t blocked = 0;    // insertions rejected while admission was blocked
  std::uint64_t evictions = 0;  // segments and snapshots
  std::uint64_t damaged = 0;    // failed verification and removed
  EntryCount sequences;         // leaf sequences resident now
  EntryCount segments;          // resident now
  EntryCount snapshots;
  std::uint64_t tokens = 0;  // resident positions; shared prefixes count once
  Bytes resident;
};

/// Traffic between the cache and the tier below it.
struct PrefixArchiveStats {
  std::uint64_t kept = 0;             // blocks of rows and snapshots that the tier accepted
  std::uint64_t refused = 0;          // blocks of rows and snapshots that it rejected
  std::uint64_t unwritten = 0;        // prompts that were not worth a write, because so few return
  std::uint64_t promoted = 0;         // prompts that resumed further thanks to loaded KV
  std::uint64_t tokens_loaded = 0;    // positions whose rows were loaded
  std::uint64_t failed = 0;           // prompts with KV in the tier that could not be loaded
  std::uint64_t no_memory = 0;        // of those, the ones whose KV found no memory
  std::uint64_t declined = 0;         // prompts with KV in the tier that was cheaper to compute
  std::uint64_t tokens_declined = 0;  // positions of those
};

/// Memory that a tier has filled with rows of every full group, or with one snapshot. The slice
/// that it comes with refers to it.
struct LoadedKv {
  TokenCount first{};                // rows; snapshot: its position
  TokenCount count{};                // 0: a snapshot
  std::span<const std::byte> bytes;  // what the tier stored
  TensorViews tensors;               // in `bytes`; one a group
  std::shared_ptr<AlignedBytes> memory;
};

/// KV cache keyed by token and media prefixes; finds the longest cached prefix of a prompt.
///
/// Shape    One radix tree per namespace; shared prefixes are stored once. Full groups: rows, split
///          where sequences diverge. Sliding and recurrent groups: snapshots at positions that the
///          engine chooses.
/// Unit     Bytes, charged to a MemoryBudget that other caches may share, and numbers of sequences
///          and positions. The index itself (about 4 bytes a token) is not charged.
/// Errors   kInvalidArgument: a sequence, layout or capture that contradicts itself, or a layout
///          other than the namespace's. kNoSpace: larger than the budget, or the rest is in use.
///          kUnavailable: admission is blocked. A call that fails changes nothing.
/// Threads  Any. One lock, held while the tree is walked (microseconds), not while KV is copied.
///          PrefillOnce adds single flight.
/// Cost     match: one pass over the prompt and one step per branching point on its path, however
///          many sequences are cached. insert: the same plus a copy of what is new.
/// Source   src/caches/prefix/DESIGN.md.
class PrefixCache final : public BudgetClient, private PrefixOwner {
 public:
  /// `budget` must outlive the cache. kInvalidArgument: max_sequences or max_tokens is 0.
  static Result<std::unique_ptr<PrefixCache>> create(PrefixCacheOptions options,
                                                     MemoryBudget& budget);
  /// Requires that no match is alive.
  ~PrefixCache() override;
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  /// Finds the longest legal resume point of `prompt` and pins it. kInvalidArgument: `prompt` is
  /// malformed. `facts` describe the request, for the eviction policy.
  [[nodiscard]] Result<PrefixMatch> match(const NamespaceId& space, const Sequence& prompt,
                                          const RequestFacts& facts = {});

  /// The KV to restore: [0, match.resume()), each window without rows that resuming there does not
  /// read. Bytes stay valid, unchanged and readable without a lock while `match` lives. Requires
  /// match.holds().
  [[nodiscard]] KvSlice kv(const PrefixMatch& match) const;
  /// The payloads that kv() reads. Check them with Payload::intact before use; that needs no cache.
  [[nodiscard]] std::vector<const Payload*> payloads(const PrefixMatch& match) const;
  /// Removes `payload`, one of payloads(match), because it is damaged, and all that extends it.
  void discard_damaged(const PrefixMatch& match, const Payload* payload);

  /// Copies in what is not cached yet of sequence[0, kv.end), evicting until it fits. Rows before
  /// kv.begin must be cached. Snapshots are at different positions, at most kv.end. `from` is the
  /// match of the same request, if any: the policy then sees one request, not two. What lies in
  /// `loaded`, in order, is kept instead of copied if little else does. Concurrent insertions of the
  /// same KV store it once. kNotFound: the prefix that the KV extends was found damaged and removed
  /// meanwhile.
  Result<PrefixInsertion> insert(const NamespaceId& space, const KvLayout& layout,
                                 const Sequence& sequence, const KvSlice& kv,
                                 PrefixMatch* from = nullptr, std::vector<LoadedKv> loaded = {});

  /// Explains where `prompt` would resume and why: caches/prefix/prefix_explanation.h. Updates no
  /// counter and pins nothing.
  [[nodiscard]] Result<PrefixExplanation> explain(const NamespaceId& space,
                                                  const Sequence& prompt) const;

  /// Invalidates everything in the namespace; pinned parts are freed when their last match is.
  bool erase(const NamespaceId& space);
  /// Invalidates what was computed from a media item: every position from the item's first one on,
  /// and others whose rows lie in one piece of memory with its rows, or could. Returns the number of
  /// positions. O(n).
  std::uint64_t erase_media(const ContentDigest& media);
  /// Invalidates the namespaces that `chosen` accepts; returns how many positions they had. O(n).
  std::uint64_t erase_spaces(const std::function<bool(const NamespaceId&)>& chosen);
  void clear();
  /// nullopt: everything is in use.
  [[nodiscard]] std::optional<EvictionCandidate> eviction_candidate() override;
  /// Evicts until at least `wanted` bytes are free. Returns the bytes freed.
  Bytes evict_bytes(Bytes wanted) override;
  /// Evicts until the budget's use is within its capacity, after the capacity was lowered.
  Bytes trim_to_budget() override;
  /// Evicts what was last used before `since`, if the policy keeps that order. Returns the bytes
  /// freed.
  Bytes evict_idle(Duration since) override;
  /// While admission is blocked, insert() fails with kUnavailable.
  void block_admission(bool blocked) override;
  [[nodiscard]] bool is_blocked() const;

  [[nodiscard]] PrefixCacheStats stats() const;
  /// Memory used by the index.
  [[nodiscard]] Bytes index_bytes() const;
  /// Recounts everything; aborts on any mismatch. O(n): for tests and fuzzers.
  void check_invariants() const;

 private:
  struct Draft;
  struct State;
  struct Locked;
  explicit PrefixCache(std::unique_ptr<Locked> locked);
  void release(const PrefixOwner::Hold& hold, const RequestFacts* request) override;

  std::unique_ptr<Locked> locked_;
};

}  // namespace afterimage
