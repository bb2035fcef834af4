// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "afterimage/memory_budget.h"
#include "afterimage/prefix_cache.h"
#include "caches/prefix/prefix_tree.h"
#include "foundation/platform/huge_pages.h"

namespace afterimage {

inline constexpr std::uint32_t kRowsPerPiece = 256;

/// Payloads attached to the nodes of a PrefixTree, with their pins, charges and eviction order.
/// PrefixCache builds on it and knows what the bytes mean.
///
/// Shape    A segment is a node's rows: slices of pieces, where a piece is a payload of at most
///          kRowsPerPiece tokens' rows of all groups, or of a tier's block. A snapshot is a payload
///          at one position.
///          A split inside a piece leaves it shared by both halves: no bytes move, and at most
///          kRowsPerPiece - 1 rows outlive the segment that they belonged to.
/// Unit     Segments and snapshots are entries of one policy, ranked together, charged as payloads.
/// Errors   kNoSpace. A call that fails changes nothing.
/// Threads  Not thread-safe.
class PrefixEntries {
 public:
  struct Slice {
    std::uint32_t piece = 0;
    std::uint32_t first = 0;  // first row within the piece
    std::uint32_t rows = 0;
  };
  /// The rarely read part of a node; what every match reads is in its NodeUse.
  struct Segment {
    std::vector<Slice> slices;             // in order; empty if no group stores a row per token
    std::vector<std::uint32_t> snapshots;  // by position, ascending
    std::uint64_t chain = 0;               // see extend_keys
    Duration cost{0};                      // of computing it
    std::uint32_t chosen_children = 0;     // children chosen as victims, while choosing
    SlotId window_below;  // a snapshot at or below this node that serves every length up to its own
    bool live = false;
    bool root = false;
    bool doomed = false;    // hidden from matches; freed when the last pin is released
    bool reported = false;  // the policy knows it
  };
  struct Snapshot {
    /// nullptr: a free slot. Read without a lock, so the payload never moves.
    std::unique_ptr<Payload> payload;
    NodeIndex node = kNoNode;
    std::uint32_t at = 0;
    std::uint32_t serves_from = 0;  // its windows serve lengths in [serves_from, at]
    std::uint32_t generation = 0;
    std::uint32_t pins = 0;
    Duration cost{0};
    bool parked = false;
    bool chosen = false;  // as a victim
    bool reported = false;
  };
  struct Counts {
    std::uint64_t evictions = 0;  // segments and snapshots
    std::uint64_t segments = 0;
    std::uint64_t snapshots = 0;
    std::uint64_t ends = 0;  // leaf segments
    std::uint64_t tokens = 0;
    Bytes resident;
  };

  /// A piece to add: its rows are those of tokens [first, first + rows).
  struct NewPiece {
    Payload payload;
    std::uint32_t first = 0;
    std::uint32_t rows = 0;
  };

  PrefixEntries(MemoryBudget& budget, std::unique_ptr<EvictionPolicy> policy, EntryCount max_ends,
                std::uint64_t max_tokens);
  /// Requires that nothing is pinned.
  ~PrefixEntries();

  /// `chain` is the namespace's policy key, from which extend_keys starts; `owner` its tenant's
  /// label.
  NodeIndex add_root(std::uint32_t space, std::uint64_t chain, EntryLabel owner);
  /// Requires that the root has no children.
  void remove_root(NodeIndex root);
  /// Takes over `pieces`, which follow each other and cover what is new. kNoNode: as PrefixTree
  /// says.
  /// The policy learns of the segment with note_addition.
  NodeIndex add_segment(NodeIndex parent, const Sequence& sequence, std::uint32_t end,
                        std::vector<NewPiece> pieces, Duration cost);
  /// `sequence` is any sequence that passes through the node.
  NodeIndex split(NodeIndex node, std::uint32_t at, const Sequence& sequence);
  void add_snapshot(NodeIndex node, std::uint32_t at, std::uint32_t serves_from, Payload payload,
                    Duration cost);

  void pin(const PrefixOwner::Hold& hold);
  void unpin(const PrefixOwner::Hold& hold);
  /// Records that one request used the node, all nodes above it, and the snapshot. Reported to the
  /// policy later, but before any other call to it.
  void note_request(const RequestFacts& facts, const PrefixOwner::Hold& used);
  /// The same for a request that added entries at `node` and above. Reported at once.
  void note_addition(const RequestFacts& facts, NodeIndex node,
                     const std::optional<SlotId>& restored);

  /// Evicts until `bytes` fit and so many more leaf sequences and positions are allowed; evicts
  /// nothing if that cannot be reached.
  Result<void> evict_for(Bytes bytes, std::uint64_t new_ends, std::uint64_t new_tokens);
  /// nullopt: nothing can be evicted.
  std::optional<EvictionCandidate> eviction_candidate();
  /// Evicts one entry. False: nothing can be evicted.
  bool evict_one();
  /// Evicts the entry that was used least recently, if that was before `since`.
  bool evict_idle_one(Duration since);
  /// Hides `node` and everything below it from matches; pinned parts are freed on their release.
  void doom(NodeIndex node);
  /// Calls `visit` for the nodes below `top` that are not doomed; where it returns false, not for
  /// those below.
  void walk_below(NodeIndex top, const std::function<bool(NodeIndex)>& visit) const;
  /// The highest node, at or above this one, from which on one piece of memory holds rows of each
  /// node and of the next: all must go for the rows to be freed.
  [[nodiscard]] NodeIndex first_in_piece(NodeIndex node) const;
  /// By piece: whether it has rows of a segment that is gone.
  [[nodiscard]] std::vector<bool> pieces_with_evicted_rows() const;
  /// Positions of the node and of those below it, without doomed ones.
  [[nodiscard]] std::uint64_t tokens_from(NodeIndex top) const;

  [[nodiscard]] const PrefixTree& tree() const { return tree_; }
  /// The namespace of a node.
  [[nodiscard]] std::uint32_t space_of(NodeIndex node) const { return tree_.use(node).space; }
  [[nodiscard]] const Segment& segment(NodeIndex node) const { return segments_[node]; }
  [[nodiscard]] const Snapshot& snapshot(std::uint32_t s) const { return snapshots_[s]; }
  [[nodiscard]] const Payload& piece(std::uint32_t p) const { return *pieces_[p].payload; }
  [[nodiscard]] SlotId slot_of(NodeIndex node) const;
  [[nodiscard]] SlotId slot_of_snapshot(std::uint32_t s) const;
  static NodeIndex node_of(SlotId slot) { return slot.index / 2; }
  static std::uint32_t snapshot_of(SlotId slot) { return slot.index / 2; }
  /// The snapshot at or below `node` that serves every length up to its own, if it still exists.
  [[nodiscard]] std::optional<std::uint32_t> window_below(NodeIndex node) const;
  /// Whether the node is a leaf sequence, so that a first child would not add another.
  [[nodiscard]] bool is_end(NodeIndex node) const;
  /// Segments of this namespace, including hidden ones that are still pinned.
  [[nodiscard]] std::uint64_t segments_in(std::uint32_t space) const { return in_space_[space]; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  void check_invariants() const;

 private:
  struct Piece {
    std::unique_ptr<Payload> payload;  // nullptr: a free slot; never moves, as a snapshot's
    std::uint32_t refs = 0;
    std::uint32_t rows = 0;
  };
  /// A request whose uses have not been reported to the policy yet.
  struct PendingRequest {
    RequestFacts facts;
    std::size_t first_use = 0;
  };
  struct Choice;

  Segment& place_for(NodeIndex node);
  std::uint32_t place_piece(Payload payload, std::uint32_t rows);
  [[nodiscard]] EntryFacts facts_of(NodeIndex node) const;
  static bool is_snapshot(SlotId slot) { return slot.index % 2 == 1; }
  [[nodiscard]] bool busy(SlotId slot) const;
  void set_parked(SlotId slot, bool parked);
  void touch(SlotId slot);
  void report_uses();
  std::optional<SlotId> next_victim();
  template <typename Propose>
  std::optional<SlotId> first_free(const Propose& propose);
  void evict(SlotId victim);
  Bytes choose(SlotId victim, Choice& choice);
  void undo(const Choice& choice);
  void remove_snapshot(std::uint32_t s);
  void remove_segment(NodeIndex node);
  void prune(NodeIndex node);
  void remove_from_policy(SlotId slot, RemovalReason why);

  MemoryBudget& budget_;
  std::unique_ptr<EvictionPolicy> policy_;
  const std::uint64_t max_ends_;
  const std::uint64_t max_tokens_;
  PrefixTree tree_;
  std::vector<Segment, HugePageAllocator<Segment>> segments_;  // by node index
  std::vector<Snapshot> snapshots_;
  std::vector<std::uint32_t> free_snapshots_;
  std::vector<Piece, HugePageAllocator<Piece>> pieces_;
  std::vector<std::uint32_t> free_pieces_;
  std::vector<std::uint64_t> in_space_;
  std::vector<EntryLabel> owners_;  // by namespace
  // Uses not reported to the policy yet, in order. Reported in one batch, so cache misses overlap.
  std::array<SlotId, 64> used_{};
  std::size_t uses_ = 0;
  std::array<PendingRequest, 16> pending_requests_{};
  std::size_t requests_ = 0;
  std::vector<std::uint64_t> new_keys_;  // of the segment not reported yet
  Counts counts_;
};

}  // namespace afterimage
