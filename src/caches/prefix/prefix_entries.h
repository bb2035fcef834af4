// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "afterimage/memory_budget.h"
#include "afterimage/payload.h"
#include "afterimage/prefix_cache.h"
#include "caches/prefix/prefix_tree.h"
#include "foundation/platform/huge_pages.h"

namespace afterimage {

inline constexpr std::uint32_t kRowsPerPiece = 256;

/// What hangs on the nodes of a PrefixTree, who holds it, and who leaves first. The books behind
/// PrefixCache, which knows what the bytes mean.
///
/// Shape    A segment is a node's rows: slices of pieces, a piece being a payload of at most
///          kRowsPerPiece tokens' rows of all groups. A snapshot is a payload at one position.
///          A cut through a piece leaves it to both halves: no bytes move, and at most
///          kRowsPerPiece - 1 rows outlive the segment that they belonged to.
/// Unit     Segments and snapshots are one policy's entries, ranked together, charged as payloads
/// are. Errors   kNoSpace. What fails changes nothing. Threads  Not thread-safe.
class PrefixEntries {
 public:
  struct Slice {
    std::uint32_t piece = 0;
    std::uint32_t first = 0;  // row of the piece
    std::uint32_t rows = 0;
  };
  /// What is seldom asked of a node; what every match asks is in its NodeUse.
  struct Segment {
    std::vector<Slice> slices;             // in order; empty if no group keeps a row a token
    std::vector<std::uint32_t> snapshots;  // by position, ascending
    std::uint64_t chain = 0;               // see extend_keys
    Duration cost{0};                      // of computing it
    std::uint32_t leaving_children = 0;    // while victims are being chosen
    SlotId window_below;  // a snapshot at or below, which serves every length up to its own
    bool live = false;
    bool root = false;
    bool doomed = false;  // no match finds it any more; it goes when nobody holds it
    bool told = false;    // the policy knows it
  };
  struct Snapshot {
    std::unique_ptr<Payload>
        payload;  // empty: the place is free; read without a lock, so it never moves
    NodeIndex node = kNoNode;
    std::uint32_t at = 0;
    std::uint32_t serves_from = 0;  // its windows serve lengths in [serves_from, at]
    std::uint32_t generation = 0;
    std::uint32_t pins = 0;
    Duration cost{0};
    bool parked = false;
    bool leaving = false;
    bool told = false;
  };
  struct Counts {
    std::uint64_t evictions = 0;  // segments and snapshots
    std::uint64_t segments = 0;
    std::uint64_t snapshots = 0;
    std::uint64_t ends = 0;  // segments without children
    std::uint64_t tokens = 0;
    Bytes resident;
  };

  PrefixEntries(MemoryBudget& budget, std::unique_ptr<EvictionPolicy> policy, EntryCount max_ends);
  /// Nothing is pinned.
  ~PrefixEntries();

  /// `chain` is the namespace's own: where the keys below begin.
  NodeIndex add_root(std::uint32_t space, std::uint64_t chain);
  /// Requires no children.
  void remove_root(NodeIndex root);
  /// Hands `pieces` over, of which the first holds rows from `piece_start` on. kNoNode: see
  /// PrefixTree. The policy does not know what was added until it is noted as used.
  NodeIndex add_segment(NodeIndex parent, const Sequence& sequence, std::uint32_t end,
                        std::vector<Payload> pieces, std::uint32_t piece_start, Duration cost);
  /// `sequence` is any that goes through the node.
  NodeIndex split(NodeIndex node, std::uint32_t at, const Sequence& sequence);
  void add_snapshot(NodeIndex node, std::uint32_t at, std::uint32_t serves_from, Payload payload,
                    Duration cost);

  void pin(const PrefixHold& hold);
  void unpin(const PrefixHold& hold);
  /// One request used the node, all above it, and the snapshot. The policy hears of it later,
  /// before it is asked or told anything else.
  void note_request(const RequestFacts& facts, const PrefixHold& used);
  /// The same of a request that added what is not told yet, at `node` and above. At once.
  void note_addition(const RequestFacts& facts, NodeIndex node,
                     const std::optional<SlotId>& restored);

  /// Evicts until `bytes` fit and `new_ends` more ends are allowed, or evicts nobody.
  Result<void> evict_for(Bytes bytes, std::uint64_t new_ends);
  /// nullopt: there is none that could leave.
  std::optional<NextToLeave> eviction_candidate();
  /// Evicts one entry. False: there is none that could leave.
  bool evict_one();
  /// No match finds `node` or what is below it any more; what is pinned goes when it is let go of.
  void doom(NodeIndex node);

  [[nodiscard]] const PrefixTree& tree() const { return tree_; }
  /// The namespace that a node belongs to.
  [[nodiscard]] std::uint32_t space_of(NodeIndex node) const { return tree_.use(node).space; }
  [[nodiscard]] const Segment& segment(NodeIndex node) const { return segments_[node]; }
  [[nodiscard]] const Snapshot& snapshot(std::uint32_t s) const { return snapshots_[s]; }
  [[nodiscard]] const Payload& piece(std::uint32_t p) const { return *pieces_[p].payload; }
  [[nodiscard]] SlotId slot_of(NodeIndex node) const;
  [[nodiscard]] SlotId slot_of_snapshot(std::uint32_t s) const;
  static NodeIndex node_of(SlotId slot) { return slot.index / 2; }
  static std::uint32_t snapshot_of(SlotId slot) { return slot.index / 2; }
  /// The snapshot at or below `node` that serves every length up to its own, if it is still there.
  [[nodiscard]] std::optional<std::uint32_t> window_below(NodeIndex node) const;
  /// Would another child of `node` be one more end?
  [[nodiscard]] bool is_end(NodeIndex node) const;
  /// Segments of this namespace, those included that only wait to be let go of.
  [[nodiscard]] std::uint64_t segments_in(std::uint32_t space) const { return in_space_[space]; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  void check_invariants() const;

 private:
  struct Piece {
    std::unique_ptr<Payload> payload;  // as that of a snapshot
    std::uint32_t refs = 0;
    std::uint32_t rows = 0;
  };
  /// A request whose uses the policy has not been told yet.
  struct BackendRequest {
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
  void tell_uses();
  std::optional<SlotId> next_victim();
  Bytes choose(SlotId victim, Choice& choice);
  void undo(const Choice& choice);
  void remove_snapshot(std::uint32_t s);
  void remove_segment(NodeIndex node);
  void prune(NodeIndex node);
  void remove_from_policy(SlotId slot, RemovalReason why);

  MemoryBudget& budget_;
  std::unique_ptr<EvictionPolicy> policy_;
  const std::uint64_t max_ends_;
  PrefixTree tree_;
  std::vector<Segment, HugePageAllocator<Segment>> segments_;  // by node
  std::vector<Snapshot> snapshots_;
  std::vector<std::uint32_t> free_snapshots_;
  std::vector<Piece, HugePageAllocator<Piece>> pieces_;
  std::vector<std::uint32_t> free_pieces_;
  std::vector<std::uint64_t> in_space_;
  // What the policy has not been told yet, in order. Told in one go, its cache misses overlap.
  std::array<SlotId, 64> used_{};
  std::size_t uses_ = 0;
  std::array<BackendRequest, 16> asked_{};
  std::size_t requests_ = 0;
  std::vector<std::uint64_t> new_keys_;  // of the segment that is not told yet
  Counts counts_;
};

}  // namespace afterimage
