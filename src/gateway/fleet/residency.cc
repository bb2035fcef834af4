// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/residency.h"

#include <algorithm>
#include <set>
#include <utility>

#include "afterimage/result.h"

namespace afterimage {
namespace {

/// Fewer tokens than this say nothing: prompts share their template.
constexpr double kTelling = 64;
/// A capacity that was learnt too small grows until evictions show again.
constexpr double kRelaxed = 1.002;

ChainKey media_key(const ContentDigest& digest) { return ChainKey{digest.bytes}; }
bool is_known(const ContentDigest& digest) { return digest != ContentDigest(); }

}  // namespace

const Residency::Entry* Residency::find_link(const ChainKey& key) const {
  const auto it = links_.find(key);
  return it == links_.end() ? nullptr : &*it->second;
}

Resident Residency::find(const ContentChain& chain, std::span<const float> tokens,
                         Duration now) const {
  AFI_CHECK(tokens.size() == chain.links.size());
  Resident found;
  bool within = true;
  for (std::size_t i = 0; i < chain.links.size(); ++i) {
    const Entry* const entry = find_link(chain.links[i].key);
    if (entry == nullptr || (!entry->reported && now - entry->used > limits_.max_age)) break;
    const double distance = computed_ - entry->stamp;
    found.recorded_distance = std::max(found.recorded_distance, distance);
    found.recorded_tokens += tokens[i];
    within = within && (entry->reported || distance <= capacity_);
    if (!within) continue;
    found.distance = std::max(found.distance, distance);
    found.tokens += tokens[i];
    if (entry->confirmed) found.confirmed_tokens += tokens[i];
    if (entry->reported) found.named_tokens += tokens[i];
    ++found.links;
  }
  std::set<ContentDigest> counted;
  for (std::size_t i = found.links; i < chain.links.size(); ++i) {
    const ChainLink& link = chain.links[i];
    if (!link.is_media || !is_known(link.media) || !counted.insert(link.media).second) continue;
    const auto it = media_.find(media_key(link.media));
    if (it != media_.end() && now - it->second->used <= limits_.max_age) ++found.media;
  }
  return found;
}

void Residency::use_media(const ContentDigest& digest, Duration now) {
  if (!is_known(digest)) return;
  const ChainKey key = media_key(digest);
  if (const auto it = media_.find(key); it != media_.end()) {
    it->second->used = now;
    media_order_.splice(media_order_.begin(), media_order_, it->second);
    return;
  }
  if (media_.size() >= limits_.media) {
    media_.erase(media_order_.back().key);
    media_order_.pop_back();
  }
  media_order_.push_front({.key = key, .used = now});
  media_.emplace(key, media_order_.begin());
}

void Residency::assume(const ContentChain& chain, std::span<const float> tokens, Duration now) {
  AFI_CHECK(tokens.size() == chain.links.size());
  // More than the record holds would push out its own beginning.
  const std::size_t count = std::min(chain.links.size(), limits_.links);
  for (std::size_t i = 0; i < count; ++i) {
    if (find_link(chain.links[i].key) == nullptr) computed_ += tokens[i];
  }
  // From the end: the beginning is then the most recently used, and goes last.
  for (std::size_t i = count; i-- > 0;) {
    const ChainLink& link = chain.links[i];
    if (link.is_media) use_media(link.media, now);
    if (const auto it = links_.find(link.key); it != links_.end()) {
      it->second->used = now;
      it->second->stamp = computed_;
      order_.splice(order_.begin(), order_, it->second);
      continue;
    }
    if (links_.size() >= limits_.links) drop(std::prev(order_.end()));
    order_.push_front({.key = link.key, .tokens = tokens[i], .used = now, .stamp = computed_});
    links_.emplace(link.key, order_.begin());
    tokens_ += tokens[i];
  }
}

void Residency::learn(const ContentChain& chain, std::span<const float> tokens,
                      double cached_tokens, const Resident& before) {
  // These were in the record and had to be computed all the same.
  computed_ += std::max(0.0, before.recorded_tokens - cached_tokens);
  double seen = 0;
  const double confirmed = cached_tokens > 0 ? cached_tokens + kTelling : 0;
  for (std::size_t i = 0; i < chain.links.size(); ++i) {
    seen += tokens[i];
    const auto it = links_.find(chain.links[i].key);
    if (it == links_.end()) break;
    it->second->stamp = computed_;
    it->second->confirmed = it->second->reported || seen <= confirmed;
  }
  // What the engine names needs no estimate of its capacity.
  if (!chain.links.empty()) {
    const Entry* const first = find_link(chain.links.front().key);
    if (first != nullptr && first->reported) return;
  }
  capacity_ = std::min(capacity_ * kRelaxed, kUnlimited);
  if (before.recorded_tokens >= kTelling && cached_tokens >= 0.8 * before.recorded_tokens) {
    capacity_ = std::max(capacity_, 1.05 * before.recorded_distance);
  } else if (before.tokens >= 2 * kTelling && cached_tokens < 0.5 * before.tokens) {
    limit_capacity(std::min(capacity_, 0.9 * before.distance));
  }
}

bool Residency::is_contradicted(const ContentChain& chain, std::span<const float> tokens,
                                double cached_tokens, const Resident& before, Duration now) const {
  if (before.named_tokens < 2 * kTelling || cached_tokens >= 0.5 * before.named_tokens)
    return false;
  return find(chain, tokens, now).named_tokens >= before.named_tokens;
}

void Residency::report_held(const ChainKey& key, float tokens, Duration now) {
  auto it = links_.find(key);
  if (it == links_.end()) {
    if (links_.size() >= limits_.links) drop(std::prev(order_.end()));
    order_.push_front({.key = key, .tokens = tokens, .used = now, .stamp = computed_});
    it = links_.emplace(key, order_.begin()).first;
    tokens_ += tokens;
  }
  it->second->confirmed = true;
  if (!std::exchange(it->second->reported, true)) reported_tokens_ += it->second->tokens;
}

void Residency::report_lost(const ChainKey& key) {
  const auto it = links_.find(key);
  if (it != links_.end()) drop(it->second);
}

void Residency::drop(Order::iterator entry) {
  tokens_ -= entry->tokens;
  if (entry->reported) reported_tokens_ -= entry->tokens;
  links_.erase(entry->key);
  order_.erase(entry);
}

void Residency::forget_share(double share) {
  double rest = share * (tokens_ - reported_tokens_);
  for (auto it = order_.end(); rest > 0 && it != order_.begin();) {
    const auto entry = std::prev(it);
    if (entry->reported) {
      it = entry;
      continue;
    }
    rest -= std::max(entry->tokens, 1.0F);
    drop(entry);
  }
}

void Residency::forget_assumed() {
  for (auto it = order_.begin(); it != order_.end();) {
    const auto entry = it++;
    if (!entry->reported) drop(entry);
  }
  media_order_.clear();
  media_.clear();
  capacity_ = kUnlimited;
}

void Residency::clear() {
  order_.clear();
  links_.clear();
  media_order_.clear();
  media_.clear();
  tokens_ = 0;
  reported_tokens_ = 0;
  capacity_ = kUnlimited;
}

}  // namespace afterimage
