// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "foundation/types/digest_hash.h"
#include "gateway/fleet/prompt_tokens.h"

namespace afterimage {

/// Which links of content chains end in which blocks of engines, learned from prompts whose tokens
/// are known. A link may end in several blocks: its end is an estimate, so that a block may reach
/// into what follows in one prompt and not in another.
///
/// Bounded: the links that were learned least recently go first, and of a link the oldest blocks. A
/// block gets no more links than kMostLinksOfBlock, so that one event cannot cause much work.
///
/// Threads  Not thread-safe.
class PromptIndex {
 public:
  static constexpr std::size_t kMostLinks = 32'768;
  static constexpr std::size_t kMostBlocks = 4;  // of one link
  static constexpr std::size_t kMostLinksOfBlock = 16;

  explicit PromptIndex(std::size_t most_links = kMostLinks) : most_links_(most_links) {}

  struct Link {
    ChainKey key;
    float tokens = 0;
  };
  /// A link that now ends in a block, or no longer does.
  struct Change {
    Link link;
    BlockContent content = 0;
    bool added = false;
  };
  /// Returns what changed, in order.
  std::vector<Change> learn(std::span<const LinkEnd> ends);
  /// The links that end in this block.
  [[nodiscard]] std::vector<Link> links_of(BlockContent content) const;
  /// The blocks in which this link ends.
  [[nodiscard]] std::vector<BlockContent> blocks_of(const ChainKey& key) const;
  [[nodiscard]] std::size_t links() const { return links_.size(); }
  void check_invariants() const;

 private:
  struct Entry {
    Link link;
    std::array<BlockContent, kMostBlocks> contents{};  // the newest first; 0: none
  };
  using Order = std::list<Entry>;  // the most recently learned first
  void drop(const Link& link, BlockContent content, std::vector<Change>& changes);
  void drop_oldest(std::vector<Change>& changes);

  std::size_t most_links_;
  Order order_;
  std::unordered_map<ChainKey, Order::iterator, DigestHash> links_;
  std::unordered_multimap<BlockContent, ChainKey> by_content_;
};

}  // namespace afterimage
