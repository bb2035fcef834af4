// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/eviction_policy.h"
#include "afterimage/kv_layout.h"
#include "afterimage/memory_budget.h"
#include "afterimage/payload.h"
#include "afterimage/result.h"
#include "afterimage/resume_point.h"
#include "afterimage/sequence.h"
#include "afterimage/units.h"

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

struct PrefixCacheOptions {
  EntryCount max_sequences =
      EntryCount::max();  // at least 1; counted as ends: sequences that no other extends
  std::unique_ptr<EvictionPolicy> policy;  // nullptr: worth
};

/// What sliding and recurrent groups remember after exactly `at` tokens.
struct CapturedSnapshot {
  TokenCount at{};
  /// One element a group of the layout. sliding: the last rows before `at`, at least min(at,
  /// window) of them; more serve more lengths. recurrent: the state. full, shared: empty.
  std::vector<std::span<const std::byte>> groups;
};

/// What an engine hands over of one sequence. The bytes stay its own.
struct CapturedKv {
  TokenCount
      covered{};  // tokens whose KV exists; less than the sequence if its last token was sampled
  TokenCount first_row{};  // rows before this are not given: they are cached already and still held
  /// One element a group of the layout. full: rows [first_row, covered), row_bytes each. Others:
  /// empty.
  std::vector<std::span<const std::byte>> rows;
  std::vector<CapturedSnapshot> snapshots;  // by position, ascending; at most `covered`
  Duration cost{0};                         // what computing it took
};

struct PrefixInsertion {
  TokenCount had{};             // leading tokens that were cached before
  TokenCount added{};           // tokens cached now and not before
  std::uint64_t snapshots = 0;  // added
  Bytes bytes;                  // charged for what was added
};

/// Every counter is of the cache's whole life.
struct PrefixCacheStats {
  std::uint64_t hits = 0;  // matches with a resume point
  std::uint64_t misses = 0;
  std::uint64_t tokens_reused = 0;
  std::uint64_t insertions = 0;
  std::uint64_t refused = 0;    // for want of room
  std::uint64_t evictions = 0;  // segments and snapshots
  std::uint64_t damaged = 0;    // found not to be intact, and removed
  EntryCount sequences;         // ends resident now
  EntryCount segments;          // and with what
  EntryCount snapshots;
  std::uint64_t tokens = 0;  // positions held, shared prefixes once
  Bytes resident;
};

/// What moved between the cache and the tier below it.
struct PrefixArchiveStats {
  std::uint64_t kept = 0;             // blocks of rows and snapshots that the tier took in
  std::uint64_t refused = 0;          // and those that it did not
  std::uint64_t promoted = 0;         // prompts that could go on further for what was loaded
  std::uint64_t tokens_loaded = 0;    // positions whose rows came back
  std::uint64_t failed = 0;           // prompts of which something was there and could not be had
  std::uint64_t declined = 0;         // prompts of which something was there to be computed sooner
  std::uint64_t tokens_declined = 0;  // positions of those
};

/// Where a query leaves what is cached.
enum class Divergence : unsigned char {
  kNothing,  // it does not: all of it is cached
  kUnknownNamespace,
  kEndOfCache,  // nothing was stored that far
  kToken,       // another token follows
  kMedia,       // another item, or none, or one elsewhere, follows
};
/// "nothing", "unknown_namespace", "end_of_cache", "token", "media".
std::string_view to_string(Divergence divergence);

/// Why a request resumes where it does. to_string tells it to a person.
struct PrefixExplanation {
  TokenCount length{};
  TokenCount matched{};
  Divergence divergence = Divergence::kNothing;  // at position `matched`
  std::optional<TokenId> asked;                  // the token there, if it is one
  std::optional<std::size_t> span;               // the query's media item there, if it is one
  ResumePoint point;
  std::vector<KvKind> kinds;      // of the layout's groups
  std::size_t media_covered = 0;  // of the query's items, those no encoder is needed for
  std::size_t media = 0;
};
std::string to_string(const PrefixExplanation& explanation);

/// KV of prompts seen before, found by their longest common prefix: prefill once.
///
/// Shape    Sequences in a tree per namespace; shared prefixes stored once. Full groups: rows,
/// sliced where
///          sequences part. Sliding and recurrent groups: snapshots at positions that the engine
///          chose.
/// Unit     Bytes, charged to a MemoryBudget that other caches may share; and a count of sequences.
/// The
///          index itself (about 4 bytes a token) is not charged.
/// Errors   kInvalidArgument: a sequence, layout or capture that contradicts itself, or a layout
/// other than
///          its namespace holds. kNoSpace: larger than the budget, or what is left is in use.
///          kCorruption: bytes are not what was stored. A call that fails changes nothing.
/// Threads  Not thread-safe: one owner.
/// Cost     match: one pass over the prompt and a step for each branching point on its way, however
/// many
///          sequences are cached. insert: the same and a copy of what is new.
/// Source   src/prefix/DESIGN.md.
class PrefixCache final : public PrefixOwner {
 public:
  /// `budget` outlives the cache. kInvalidArgument: max_sequences is 0.
  static Result<std::unique_ptr<PrefixCache>> create(PrefixCacheOptions options,
                                                     MemoryBudget& budget);
  /// No match is held.
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  /// The longest legal resume point for `prompt`, held. kInvalidArgument: not a sequence. `facts`
  /// are of the request that asks.
  [[nodiscard]] Result<PrefixMatch> match(const NamespaceId& space, const Sequence& prompt,
                                          const RequestFacts& facts = {});

  /// What to restore. Bytes stay valid while `match` lives. Requires match.holds().
  [[nodiscard]] CachedKv kv(const PrefixMatch& match) const;
  /// The payloads behind it, to be checked with Payload::intact before use, without the cache's
  /// help.
  [[nodiscard]] std::vector<const Payload*> payloads(const PrefixMatch& match) const;
  /// Checks them all. kCorruption: what is damaged, and all that stands on it, is found no more.
  Result<void> verify(const PrefixMatch& match);
  /// `payload`, one of payloads(match), is damaged.
  void discard_damaged(const PrefixMatch& match, const Payload* payload);

  /// Copies in what is not cached yet of sequence[0, kv.covered), evicting until it fits. `from` is
  /// the match that the same request began with, if it had one: both are told as one request.
  Result<PrefixInsertion> insert(const NamespaceId& space, const KvLayout& layout,
                                 const Sequence& sequence, const CapturedKv& kv,
                                 PrefixMatch* from = nullptr);

  /// insert in four steps, so that a front can copy between them without holding its lock, and
  /// others can make room: what lacks …
  class Draft;
  [[nodiscard]] Result<Draft> draft(const NamespaceId& space, const KvLayout& layout,
                                    const Sequence& sequence, const CapturedKv& kv);
  /// … room for it, evicting if need be …
  [[nodiscard]] Result<void> make_room(Draft& draft);
  /// … the copy, which touches nothing of the cache …
  static Result<void> fill(Draft& draft, const KvLayout& layout, const CapturedKv& kv);
  /// … and the entry. kNotFound: what the draft stands on turned out damaged and was removed
  /// meanwhile.
  Result<PrefixInsertion> commit(Draft draft, const NamespaceId& space, const KvLayout& layout,
                                 const Sequence& sequence, PrefixMatch* from = nullptr);

  /// Why `prompt` would resume where it would. Counts nothing, holds nothing.
  [[nodiscard]] Result<PrefixExplanation> explain(const NamespaceId& space,
                                                  const Sequence& prompt) const;

  /// No match finds anything of the namespace any more; what is held goes when it is let go of.
  bool erase(const NamespaceId& space);
  void clear();
  /// nullopt: all is in use.
  [[nodiscard]] std::optional<NextToLeave> eviction_candidate();
  /// Evicts until at least `wanted` bytes are free again. Returns what was freed.
  Bytes evict_bytes(Bytes wanted);
  /// Evicts until the budget's use is within its capacity: for when it has shrunk.
  Bytes trim_to_budget();

  [[nodiscard]] PrefixCacheStats stats() const;
  /// Memory of the index itself.
  [[nodiscard]] Bytes index_bytes() const;
  /// Recounts everything; aborts where the books disagree. O(n): tests and fuzzers.
  void check_invariants() const;

  void let_go(const PrefixHold& hold, const RequestFacts* request) override;

 private:
  struct State;
  explicit PrefixCache(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// KV on its way in: how much, room for it, then the bytes. Move-only; letting go of it gives the
/// room back, and what it stands on, which stays until then.
class [[nodiscard]] PrefixCache::Draft {
 public:
  [[nodiscard]] Bytes bytes() const;

 private:
  friend class PrefixCache;
  struct Part {
    Bytes bytes;
    Reservation room;
    std::optional<Payload> payload;
    TokenCount at{};                // pieces: the first row; snapshots: the position
    TokenCount rows{};              // pieces only
    std::size_t snapshot = 0;       // snapshots: which of the capture's
    std::uint32_t serves_from = 0;  // snapshots: the shortest length that its windows serve
  };
  explicit Draft(PrefixMatch base) : base_(std::move(base)) {}

  PrefixMatch base_;  // keeps what the new part stands on
  TokenCount covered_{};
  std::uint64_t ends_ = 0;  // that it adds
  Duration cost_{0};
  std::vector<Part> pieces_;
  std::vector<Part> snapshots_;
};

}  // namespace afterimage
