// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/prefix/prefix_tree.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "afterimage/result.h"

namespace afterimage {
namespace {

constexpr std::uint32_t kMaxNodes = 1U << 31U;

/// The number of equal leading tokens. memcmp is the fastest comparison but does not say where
/// runs differ, so it runs over long strides until one differs; most runs are equal to the end.
std::uint32_t equal_tokens(const TokenId* a, const TokenId* b, std::uint32_t count) {
  std::uint32_t i = 0;
  for (const std::uint32_t stride : {4096U, count % 4096U, 256U, 32U}) {
    while (stride > 0 && count - i >= stride &&
           std::memcmp(a + i, b + i, stride * sizeof(TokenId)) == 0) {
      i += stride;
    }
  }
  while (i < count && a[i] == b[i]) ++i;
  return i;
}

/// Prefetches a node's tokens while the first are compared: enough to keep memory busy. Longer
/// runs are left to the hardware prefetcher.
void fetch_ahead(const TokenId* tokens, std::uint32_t count) {
  constexpr std::uint32_t kLine = 64 / sizeof(TokenId);
  for (std::uint32_t i = 0; i < std::min(count, 32 * kLine); i += kLine)
    __builtin_prefetch(tokens + i);
}

/// The spans that overlap [begin, end).
std::span<const MediaSpan> spans_within(std::span<const MediaSpan> spans, std::uint32_t begin,
                                        std::uint32_t end) {
  const auto first = std::ranges::upper_bound(spans, TokenCount(begin), {}, &MediaSpan::end);
  const auto last = std::ranges::lower_bound(spans, TokenCount(end), {}, &MediaSpan::offset);
  return {first, std::max(first, last)};
}

/// The first position in [begin, end) where the media differ, or `end`.
std::uint32_t media_gate(std::span<const MediaSpan> cached, std::span<const MediaSpan> asked,
                         std::uint32_t begin, std::uint32_t end) {
  for (std::size_t i = 0;; ++i) {
    const bool has_cached = i < cached.size() && cached[i].offset < TokenCount(end);
    const bool has_asked = i < asked.size() && asked[i].offset < TokenCount(end);
    if (!has_cached && !has_asked) return end;
    if (has_cached && has_asked && cached[i] == asked[i]) continue;
    const std::uint32_t cached_at = has_cached ? cached[i].offset.value() : end;
    const std::uint32_t asked_at = has_asked ? asked[i].offset.value() : end;
    return std::max(begin, std::min(cached_at, asked_at));
  }
}

}  // namespace

std::uint64_t PrefixTree::child_key(NodeIndex parent, TokenId token, const MediaSpan* span,
                                    std::uint32_t position) {
  const auto text = (std::uint64_t{parent} << 32U) | static_cast<std::uint32_t>(token);
  if (span == nullptr || position < span->offset.value()) return text;
  struct {
    ContentDigest content;
    std::uint64_t text;
    std::uint32_t offset, length, modality, splittable;
  } const media{.content = span->content,
                .text = text,
                .offset = span->offset.value(),
                .length = span->length.value(),
                .modality = static_cast<std::uint32_t>(span->modality),
                .splittable = span->splittable ? 1U : 0U};
  static_assert(sizeof media == 56, "padding would be hashed");
  return XXH3_64bits(&media, sizeof media) | (std::uint64_t{1} << 63U);  // parents are below 2^31
}

std::uint64_t PrefixTree::key_of(NodeIndex parent, NodeIndex child) const {
  const Node& node = nodes_[child];
  const MediaSpan* span = node.spans == nullptr ? nullptr : node.spans->data();
  return child_key(parent, node.label[0], span, node.start);
}

NodeIndex PrefixTree::take_node() {
  if (!free_nodes_.empty()) {
    const NodeIndex node = free_nodes_.back();
    free_nodes_.pop_back();
    nodes_[node].in_use = true;
    return node;
  }
  AFI_CHECK(nodes_.size() < kMaxNodes);
  nodes_.emplace_back().in_use = true;
  return static_cast<NodeIndex>(nodes_.size() - 1);
}

NodeIndex PrefixTree::add_root() { return take_node(); }

std::span<const MediaSpan> PrefixTree::spans(NodeIndex node) const {
  const auto& spans = nodes_[node].spans;
  return spans == nullptr ? std::span<const MediaSpan>() : std::span<const MediaSpan>(*spans);
}

PrefixTree::Walk PrefixTree::match(NodeIndex root, const Sequence& sequence,
                                   std::uint32_t limit) const {
  Walk walk{.node = root};
  std::span<const MediaSpan> ahead(sequence.spans);  // those that end after `matched`
  while (walk.matched < limit) {
    const Node& node = nodes_[walk.node];
    if (walk.matched < node.start + node.length || node.children == 0) break;
    while (!ahead.empty() && ahead.front().end().value() <= walk.matched) ahead = ahead.subspan(1);
    const MediaSpan* span = ahead.empty() ? nullptr : ahead.data();
    const ChildTable::Child* const next =
        by_key_.find(child_key(walk.node, sequence.tokens[walk.matched], span, walk.matched));
    if (next == nullptr) break;
    // Two independent prefetches: the child table has the address of both.
    const Node& child = nodes_[next->node];
    __builtin_prefetch(&child, 1);
    const std::uint32_t most = std::min(next->length, limit - walk.matched);
    fetch_ahead(next->label, most);
    std::uint32_t equal = equal_tokens(next->label, sequence.tokens.data() + walk.matched, most);
    if (child.parent != walk.node) break;  // another parent's child: the keys collide
    if (equal > 0 && (child.spans != nullptr || !ahead.empty())) {
      equal = media_gate(spans(next->node), ahead, child.start, child.start + equal) - child.start;
    }
    if (equal == 0) break;
    walk = {.node = next->node, .matched = child.start + equal, .steps = walk.steps + 1};
  }
  return walk;
}

void PrefixTree::set_label(Node& node, std::span<const TokenId> tokens,
                           std::span<const MediaSpan> spans) {
  node.length = static_cast<std::uint32_t>(tokens.size());
  node.label = arena_.allocate(node.length);
  std::ranges::copy(tokens, node.label);
  const auto inside = spans_within(spans, node.start, node.start + node.length);
  if (!inside.empty()) {
    node.spans = std::make_unique<std::vector<MediaSpan>>(inside.begin(), inside.end());
  }
}

void PrefixTree::link(NodeIndex parent, NodeIndex child) {
  Node& above = nodes_[parent];
  Node& node = nodes_[child];
  node.parent = parent;
  node.next = above.first_child;
  node.previous = kNoNode;
  if (above.first_child != kNoNode) nodes_[above.first_child].previous = child;
  above.first_child = child;
  ++above.children;
  by_key_.put(
      {.key = key_of(parent, child), .label = node.label, .length = node.length, .node = child});
}

void PrefixTree::unlink(NodeIndex child) {
  Node& node = nodes_[child];
  if (node.parent == kNoNode) return;
  if (!node.hidden) by_key_.erase(key_of(node.parent, child));
  Node& above = nodes_[node.parent];
  --above.children;
  if (node.previous == kNoNode) {
    above.first_child = node.next;
  } else {
    nodes_[node.previous].next = node.next;
  }
  if (node.next != kNoNode) nodes_[node.next].previous = node.previous;
  node.parent = node.next = node.previous = kNoNode;
}

NodeIndex PrefixTree::split(NodeIndex lower, std::uint32_t at) {
  AFI_CHECK(start(lower) < at && at < end(lower) && parent(lower) != kNoNode);
  const NodeIndex upper = take_node();  // may move nodes: no references before this
  Node& below = nodes_[lower];
  Node& above = nodes_[upper];
  const NodeIndex parent = below.parent;
  unlink(lower);
  TokenId* const whole = below.label;
  const std::uint32_t length = below.length;
  const auto spans = std::move(below.spans);
  const std::span<const MediaSpan> all =
      spans == nullptr ? std::span<const MediaSpan>() : std::span<const MediaSpan>(*spans);
  above.start = below.start;
  set_label(above, {whole, at - below.start}, all);
  below.start = at;
  set_label(below, {whole + above.length, length - above.length}, all);
  arena_.deallocate(whole, length);
  link(parent, upper);
  link(upper, lower);
  return upper;
}

NodeIndex PrefixTree::add_leaf(NodeIndex parent, const Sequence& sequence, std::uint32_t end) {
  const std::uint32_t start = this->end(parent);
  AFI_CHECK(start < end && end <= sequence.tokens.size());
  const NodeIndex leaf = take_node();
  Node& node = nodes_[leaf];
  node.start = start;
  set_label(node, std::span(sequence.tokens).subspan(start, end - start), sequence.spans);
  if (by_key_.find(key_of(parent, leaf)) != nullptr) {
    release(node);
    free_nodes_.push_back(leaf);
    return kNoNode;
  }
  link(parent, leaf);
  return leaf;
}

void PrefixTree::release(Node& node) {
  if (node.label != nullptr) arena_.deallocate(node.label, node.length);
  const std::uint32_t next_generation = node.use.generation + 1;
  node = Node{};
  node.use.generation = next_generation;
}

void PrefixTree::remove(NodeIndex node) {
  AFI_CHECK(nodes_[node].in_use && nodes_[node].children == 0);
  unlink(node);
  release(nodes_[node]);
  free_nodes_.push_back(node);
}

void PrefixTree::hide(NodeIndex node) {
  AFI_CHECK(!nodes_[node].hidden && parent(node) != kNoNode);
  by_key_.erase(key_of(parent(node), node));
  nodes_[node].hidden = true;
}

std::size_t PrefixTree::bytes() const {
  return nodes_.capacity() * sizeof(Node) + arena_.bytes() + by_key_.bytes();
}

void PrefixTree::check_invariants() const {
  std::size_t in_use = 0;
  std::size_t linked = 0;
  for (NodeIndex i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (!node.in_use) continue;
    ++in_use;
    std::uint32_t children = 0;
    NodeIndex previous = kNoNode;
    for (NodeIndex c = node.first_child; c != kNoNode; c = nodes_[c].next) {
      AFI_CHECK(nodes_[c].in_use && nodes_[c].parent == i && nodes_[c].previous == previous);
      AFI_CHECK(nodes_[c].start == end(i) && nodes_[c].length > 0);
      const ChildTable::Child* const found = by_key_.find(key_of(i, c));
      AFI_CHECK((found != nullptr && found->node == c) != nodes_[c].hidden);
      if (!nodes_[c].hidden) ++linked;
      previous = c;
      ++children;
    }
    AFI_CHECK(children == node.children);
    AFI_CHECK(node.spans == nullptr || !node.spans->empty());
    for (const MediaSpan& span : spans(i)) {
      AFI_CHECK(span.end().value() > node.start && span.offset.value() < end(i));
    }
  }
  AFI_CHECK(in_use + free_nodes_.size() == nodes_.size());
  AFI_CHECK(linked == by_key_.size());
}

}  // namespace afterimage
