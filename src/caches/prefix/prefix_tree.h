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

/// A node of a PrefixTree. Indices of removed nodes are reused.
using NodeIndex = std::uint32_t;
inline constexpr NodeIndex kNoNode = 0xFFFFFFFFU;

/// Usage data of a node, for PrefixEntries. It lives on the node's own cache line, because every
/// match writes it and would otherwise take one more cache miss per node.
struct NodeUse {
  std::uint32_t generation = 0;  // distinguishes a node from earlier ones with its index
  std::uint32_t pins = 0;
  std::uint32_t space = 0;   // its namespace
  bool parked = false;       // the eviction policy knows that it is in use
  bool prune_later = false;  // check for removal when the last pin is released
};

/// A forest of radix trees over token ids and media spans, one per namespace. It knows nothing of
/// KV, budgets or pins; PrefixEntries attaches those to the nodes.
///
/// Shape    A node stands for positions [start, end) of every sequence below it and stores their
///          tokens contiguously. Two sequences are equal at a position if their tokens are, and if
///          neither is in a media span there or both are in spans of equal modality, digest,
///          offset, length and splittability.
/// Unit     Positions count tokens from the start of the sequence, below 2^31.
/// Errors   None. Sequences have passed check_sequence.
/// Threads  match is const and may run concurrently with itself; everything else is exclusive.
/// Cost     match: one look-up and one comparison per node on the path, one memcmp over the prompt
///          in total, however many sequences there are. 64 bytes a node, 4 bytes a token.
/// Source   src/caches/prefix/DESIGN.md.
class PrefixTree {
 public:
  struct Walk {
    NodeIndex node = kNoNode;   // the deepest node that matches in part; the root if none does
    std::uint32_t matched = 0;  // positions; at most the node's end
    std::uint32_t steps = 0;    // nodes compared: the cost besides reading the prompt
  };

  PrefixTree() = default;
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  NodeIndex add_root();
  /// The longest prefix of sequence[0, limit) in the tree of `root`.
  [[nodiscard]] Walk match(NodeIndex root, const Sequence& sequence, std::uint32_t limit) const;

  /// Splits a node at `at`, start < at < end. Returns a new node for the part before `at`; the old
  /// one keeps its index, its children and the rest.
  NodeIndex split(NodeIndex node, std::uint32_t at);
  /// Adds a child of `parent` for sequence[parent's end, end). kNoNode: it cannot be distinguished
  /// from a sibling, because the 64-bit hashes of two media items collide.
  NodeIndex add_leaf(NodeIndex parent, const Sequence& sequence, std::uint32_t end);
  /// Hides the node and its subtree from matches; an equal node can then be added again. It stays
  /// a child of its parent until it is removed.
  void hide(NodeIndex node);
  /// Requires that the node has no children.
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
  /// The media spans that overlap [start, end), uncut.
  [[nodiscard]] std::span<const MediaSpan> spans(NodeIndex node) const;

  /// One more than the largest index in use.
  [[nodiscard]] std::size_t places() const { return nodes_.size(); }
  /// Memory used by the index.
  [[nodiscard]] std::size_t bytes() const;
  /// Walks every tree; aborts where links, keys or labels disagree.
  void check_invariants() const;

 private:
  /// Everything that a match reads of a node except its tokens, on one cache line.
  struct alignas(64) Node {
    TokenId* label = nullptr;
    std::unique_ptr<std::vector<MediaSpan>> spans;  // empty: no media here
    std::uint32_t start = 0;
    std::uint32_t length = 0;
    std::uint32_t children = 0;
    NodeIndex parent = kNoNode;
    NodeIndex first_child = kNoNode;
    NodeIndex next = kNoNode;  // sibling links, for walks over the whole tree
    NodeIndex previous = kNoNode;
    NodeUse use;
    bool in_use = false;
    bool hidden = false;
  };
  static_assert(sizeof(Node) == 64, "a node is one cache line");

  NodeIndex take_node();
  /// Distinguishes the children of a node by their token or media span at `position`.
  static std::uint64_t child_key(NodeIndex parent, TokenId token, const MediaSpan* span,
                                 std::uint32_t position);
  [[nodiscard]] std::uint64_t key_of(NodeIndex parent, NodeIndex child) const;
  void link(NodeIndex parent, NodeIndex child);
  void unlink(NodeIndex child);
  void set_label(Node& node, std::span<const TokenId> tokens, std::span<const MediaSpan> spans);
  void release(Node& node);

  std::vector<Node, HugePageAllocator<Node>> nodes_;
  std::vector<NodeIndex> free_nodes_;
  ChildTable by_key_;  // children of all nodes except hidden ones
  TokenArena arena_;
};

}  // namespace afterimage
