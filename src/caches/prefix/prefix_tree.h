// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "afterimage/sequence.h"
#include "caches/prefix/child_table.h"
#include "caches/prefix/token_arena.h"
#include "foundation/platform/huge_pages.h"

namespace afterimage {

/// A node of a PrefixTree. Indices of removed nodes are used again.
using NodeIndex = std::uint32_t;
inline constexpr NodeIndex kNoNode = 0xFFFFFFFFU;

/// Who uses a node: kept for whoever hangs something on it, on the node's own cache line, because a
/// match writes it and would otherwise wait for one more line of memory at each node.
struct NodeUse {
  std::uint32_t generation = 0;  // tells a node from earlier ones of its index
  std::uint32_t pins = 0;
  std::uint32_t space = 0;   // the namespace it belongs to
  bool parked = false;       // the eviction policy was told that it is in use
  bool prune_later = false;  // it may have to go when the last pin does
};

/// Which sequences begin alike: a forest of radix trees over token ids and media spans. Knows
/// nothing of KV, budgets or who holds what; PrefixEntries hangs those on the nodes.
///
/// Shape    A node stands for positions [start, end) of every sequence below it, and holds their
/// tokens
///          in one piece. Two sequences are the same at a position if the token is, and if both or
///          neither are in a media span there, spans of equal modality, digest, offset, length and
///          splittability.
/// Unit     Positions count tokens from the start of the sequence, below 2^31.
/// Errors   None. Sequences have passed check_sequence.
/// Threads  match is const and may run beside itself; everything else needs the tree alone.
/// Cost     match: one look-up and one comparison a node on the way, a memcmp over the prompt in
/// all,
///          however many sequences there are. 64 bytes a node, 4 bytes a token.
/// Source   src/prefix/DESIGN.md.
class PrefixTree {
 public:
  struct Walk {
    NodeIndex node = kNoNode;   // the last one of which anything matches; the root if nothing does
    std::uint32_t matched = 0;  // positions; at most the node's end
    std::uint32_t steps = 0;  // nodes compared with: what the walk cost besides reading the prompt
  };

  PrefixTree() = default;
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  NodeIndex add_root();
  /// The longest prefix of sequence[0, limit) that is in the tree of `root`.
  [[nodiscard]] Walk match(NodeIndex root, const Sequence& sequence, std::uint32_t limit) const;

  /// Cuts a node at `at`, start < at < end. Returns the new node for what stands before the cut;
  /// the old one keeps its index, its children and what follows.
  NodeIndex split(NodeIndex node, std::uint32_t at);
  /// A child of `parent` for sequence[parent's end, end). kNoNode if it cannot be told from a
  /// sibling: two media items whose 64-bit hashes collide.
  NodeIndex add_leaf(NodeIndex parent, const Sequence& sequence, std::uint32_t end);
  /// From now on no match leads to the node or below it, and the like of it can be added again. It
  /// stays its parent's child until it is removed.
  void hide(NodeIndex node);
  /// Requires no children.
  void remove(NodeIndex node);

  [[nodiscard]] std::uint32_t start(NodeIndex node) const { return nodes_[node].start; }
  [[nodiscard]] std::uint32_t end(NodeIndex node) const {
    return nodes_[node].start + nodes_[node].length;
  }
  /// kNoNode for roots.
  [[nodiscard]] NodeIndex parent(NodeIndex node) const { return nodes_[node].parent; }
  [[nodiscard]] std::uint32_t children(NodeIndex node) const { return nodes_[node].children; }
  [[nodiscard]] NodeIndex first_child(NodeIndex node) const { return nodes_[node].first_child; }
  [[nodiscard]] NodeIndex next_sibling(NodeIndex node) const { return nodes_[node].next; }
  [[nodiscard]] NodeUse& use(NodeIndex node) { return nodes_[node].use; }
  [[nodiscard]] const NodeUse& use(NodeIndex node) const { return nodes_[node].use; }
  /// Those that reach into [start, end), whole.
  [[nodiscard]] std::span<const MediaSpan> spans(NodeIndex node) const;

  /// One above the largest index in use.
  [[nodiscard]] std::size_t places() const { return nodes_.size(); }
  /// Memory of the index itself.
  [[nodiscard]] std::size_t bytes() const;
  /// Walks every tree; aborts where links, keys or labels disagree.
  void check_invariants() const;

 private:
  /// Everything a match reads of a node but its tokens, on one cache line.
  struct alignas(64) Node {
    TokenId* label = nullptr;
    std::unique_ptr<std::vector<MediaSpan>> spans;  // empty: no media here
    std::uint32_t start = 0;
    std::uint32_t length = 0;
    std::uint32_t children = 0;
    NodeIndex parent = kNoNode;
    NodeIndex first_child = kNoNode;
    NodeIndex next = kNoNode;  // siblings, for walks over the whole tree
    NodeIndex previous = kNoNode;
    NodeUse use;
    bool in_use = false;
    bool hidden = false;
  };
  static_assert(sizeof(Node) == 64, "a node is one cache line");

  NodeIndex take_node();
  /// Tells the children of one node apart by what stands at `position`.
  static std::uint64_t child_key(NodeIndex parent, TokenId token, const MediaSpan* span,
                                 std::uint32_t position);
  [[nodiscard]] std::uint64_t key_of(NodeIndex parent, NodeIndex child) const;
  void link(NodeIndex parent, NodeIndex child);
  void unlink(NodeIndex child);
  void set_label(Node& node, std::span<const TokenId> tokens, std::span<const MediaSpan> spans);
  void release(Node& node);

  std::vector<Node, HugePageAllocator<Node>> nodes_;
  std::vector<NodeIndex> free_nodes_;
  ChildTable by_key_;  // children of all nodes, the hidden ones not
  TokenArena arena_;
};

}  // namespace afterimage
