// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/prompt_index.h"

#include <algorithm>

#include "afterimage/result.h"

namespace afterimage {

void PromptIndex::drop(const Link& link, BlockContent content, std::vector<Change>& changes) {
  const auto [begin, end] = by_content_.equal_range(content);
  for (auto it = begin; it != end; ++it) {
    if (it->second != link.key) continue;
    by_content_.erase(it);
    break;
  }
  changes.push_back({.link = link, .content = content, .added = false});
}

void PromptIndex::drop_oldest(std::vector<Change>& changes) {
  const Entry entry = order_.back();
  links_.erase(entry.link.key);
  order_.pop_back();
  for (const BlockContent content : entry.contents) {
    if (content != 0) drop(entry.link, content, changes);
  }
}

std::vector<PromptIndex::Change> PromptIndex::learn(std::span<const LinkEnd> ends) {
  std::vector<Change> changes;
  // A prompt of more links than the index holds would push out its own beginning.
  for (const LinkEnd& end : ends.first(std::min(ends.size(), most_links_))) {
    auto it = links_.find(end.key);
    if (by_content_.count(end.content) >= kMostLinksOfBlock) continue;
    if (it == links_.end()) {
      if (links_.size() >= most_links_) drop_oldest(changes);
      order_.push_front({.link = {.key = end.key, .tokens = end.tokens}});
      it = links_.emplace(end.key, order_.begin()).first;
    } else {
      order_.splice(order_.begin(), order_, it->second);
    }
    Entry& entry = *it->second;
    auto& contents = entry.contents;
    if (std::ranges::find(contents, end.content) != contents.end()) continue;
    if (contents.back() != 0) drop(entry.link, contents.back(), changes);
    std::ranges::rotate(contents, std::prev(contents.end()));
    contents.front() = end.content;
    by_content_.emplace(end.content, end.key);
    changes.push_back({.link = entry.link, .content = end.content, .added = true});
  }
  return changes;
}

std::vector<PromptIndex::Link> PromptIndex::links_of(BlockContent content) const {
  std::vector<Link> found;
  const auto [begin, end] = by_content_.equal_range(content);
  for (auto it = begin; it != end; ++it) found.push_back(links_.at(it->second)->link);
  return found;
}

std::vector<BlockContent> PromptIndex::blocks_of(const ChainKey& key) const {
  std::vector<BlockContent> found;
  const auto it = links_.find(key);
  if (it == links_.end()) return found;
  std::ranges::copy_if(it->second->contents, std::back_inserter(found),
                       [](BlockContent content) { return content != 0; });
  return found;
}

void PromptIndex::check_invariants() const {
  AFI_CHECK(links_.size() == order_.size());
  AFI_CHECK(links_.size() <= most_links_);
  std::size_t contents = 0;
  for (const Entry& entry : order_) {
    AFI_CHECK(&*links_.at(entry.link.key) == &entry);
    for (const BlockContent content : entry.contents) {
      if (content == 0) continue;
      ++contents;
      const auto [begin, end] = by_content_.equal_range(content);
      AFI_CHECK(std::count_if(begin, end,
                              [&](const auto& one) { return one.second == entry.link.key; }) == 1);
    }
  }
  AFI_CHECK(contents == by_content_.size());
}

}  // namespace afterimage
