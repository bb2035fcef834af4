// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/kv_publisher/held_content.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "foundation/types/digest_hash.h"

namespace afterimage {
namespace {

/// The tokens of the prompt until each link's end: media have as many as their spans, texts share the
/// rest by their bytes. The last link ends with the prompt.
std::vector<std::uint64_t> link_ends(const ContentChain& chain, const Sequence& prompt) {
  std::uint64_t media_tokens = 0;
  for (const MediaSpan& span : prompt.spans) media_tokens += span.length.value();
  std::uint64_t text_bytes = 0;
  for (const ChainLink& link : chain.links) text_bytes += link.text_bytes;
  const double per_byte = text_bytes == 0
                              ? 0
                              : static_cast<double>(prompt.tokens.size() - media_tokens) /
                                    static_cast<double>(text_bytes);
  std::vector<std::uint64_t> ends;
  std::size_t next_span = 0;
  std::uint64_t media = 0;
  std::uint64_t bytes = 0;
  for (const ChainLink& link : chain.links) {
    if (link.is_media && next_span < prompt.spans.size()) {
      media += prompt.spans[next_span++].length.value();
    }
    bytes += link.text_bytes;
    ends.push_back(media + static_cast<std::uint64_t>(per_byte * static_cast<double>(bytes)));
  }
  if (!ends.empty()) ends.back() = prompt.tokens.size();
  return ends;
}

}  // namespace

std::size_t HeldContent::held_now(const Record& record) const {
  const std::uint64_t tokens = matched_(*record.prompt);
  return static_cast<std::size_t>(std::ranges::upper_bound(record.ends, tokens) -
                                  record.ends.begin());
}

void HeldContent::set_held(Record& record, std::size_t held, KvBatch& batch) {
  for (; record.held < held; ++record.held) {
    const HeldLink& link = record.links[record.held];
    if (++counts_[link.key] == 1) batch.stored(link);
  }
  // From the end: no link is announced without the one before it.
  for (; record.held > held; --record.held) {
    const auto count = counts_.find(record.links[record.held - 1].key);
    if (--count->second > 0) continue;
    batch.removed(count->first);
    counts_.erase(count);
  }
}

HeldContent::Records::iterator HeldContent::drop(Records::iterator record, KvBatch& batch) {
  set_held(*record, 0, batch);
  remembered_ -= record->links.size();
  by_end_.erase(record->links.back().key);
  return records_.erase(record);
}

void HeldContent::add(const ContentChain& chain, std::shared_ptr<const HeldPrompt> prompt,
                      KvBatch& batch) {
  if (chain.links.empty() || chain.links.size() > limits_.links) return;
  Record record{.links = {}, .ends = link_ends(chain, prompt->sequence), .prompt = {}};
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < chain.links.size(); ++i) {
    const ChainLink& link = chain.links[i];
    record.links.push_back({.key = link.key,
                            .tokens = static_cast<std::uint32_t>(record.ends[i] - before),
                            .media = link.is_media ? link.media : ContentDigest()});
    if (i > 0) record.links.back().parent = chain.links[i - 1].key;
    before = record.ends[i];
  }
  record.prompt = std::move(prompt);
  // What it replaces is dropped after it is counted, so that nothing is announced twice.
  const auto same = by_end_.find(chain.links.back().key);
  const auto replaced = same == by_end_.end() ? records_.end() : same->second;
  set_held(record, held_now(record), batch);
  if (replaced != records_.end()) drop(replaced, batch);
  remembered_ += record.links.size();
  records_.push_front(std::move(record));
  by_end_[chain.links.back().key] = records_.begin();
  while (records_.size() > limits_.records || remembered_ > limits_.links) {
    drop(std::prev(records_.end()), batch);
  }
}

void HeldContent::check(KvBatch& batch) {
  for (auto record = records_.begin(); record != records_.end();) {
    set_held(*record, held_now(*record), batch);
    record = record->held == 0 ? drop(record, batch) : std::next(record);
  }
}

void HeldContent::write_all(KvBatch& batch) const {
  std::unordered_set<ChainKey, DigestHash> written;
  for (const Record& record : records_) {
    for (std::size_t i = 0; i < record.held; ++i) {
      if (written.insert(record.links[i].key).second) batch.stored(record.links[i]);
    }
  }
}

}  // namespace afterimage
