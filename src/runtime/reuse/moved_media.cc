// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/reuse/moved_media.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace afterimage {

double loss_at_least(std::uint64_t same, std::uint64_t other) {
  if (other == 0) return 0;
  constexpr int kHalvings = 40;
  const auto right = static_cast<double>(same);
  const auto wrong = static_cast<double>(other);
  const double mixture = std::lgamma(right + 0.5) + std::lgamma(wrong + 0.5) -
                         std::lgamma(right + wrong + 1.0) - std::log(std::numbers::pi);
  const double limit = -std::log(0.05);
  double low = 0;
  double high = wrong / (right + wrong);
  for (int i = 0; i < kHalvings; ++i) {
    const double p = (low + high) / 2;
    const double likelihood = wrong * std::log(p) + (same == 0 ? 0 : right * std::log1p(-p));
    // Half of the mixture's weight is on "never", which a single other token refutes.
    (mixture - std::log(2.0) - likelihood > limit ? low : high) = p;
  }
  return low;
}

Bytes MovedMediaCache::Item::size() const {
  std::uint64_t bytes = 0;
  for (const auto& group : rows) bytes += group.size();
  return Bytes(bytes);
}

MovedMedia MovedMediaCache::Item::moved(std::size_t span, TokenCount recomputed) const {
  MovedMedia result{.span = span, .recomputed = recomputed, .from = from, .rows = {}};
  for (const auto& group : rows) {
    auto& pieces = result.rows.emplace_back();
    if (!group.empty()) pieces.push_back({.count = length, .bytes = group});
  }
  return result;
}

bool MovedMediaCache::serves(const KvOrigin& origin) const {
  const MutexLock lock(mutex_);
  return on_ && origin == options_.certified;
}

std::shared_ptr<const MovedMediaCache::Item> MovedMediaCache::find(const NamespaceId& space,
                                                                   const MediaSpan& span) {
  const MutexLock lock(mutex_);
  const auto known = by_key_.find(key_of(space, span));
  if (known == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, known->second);
  return known->second->item;
}

void MovedMediaCache::keep(const NamespaceId& space, const MediaSpan& span, const TokenPlace& from,
                           const KvSlice& kv) {
  const Key key = key_of(space, span);
  {
    const MutexLock lock(mutex_);
    if (!on_ || by_key_.contains(key)) return;
  }
  auto item = std::make_shared<Item>();
  item->from = from;
  item->length = span.length;
  for (const auto& pieces : rows_of(span, kv)) {
    auto& bytes = item->rows.emplace_back();
    for (const KvRows& piece : pieces) {
      bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
    }
  }
  const Bytes size = item->size();
  if (size > options_.capacity) return;
  const MutexLock lock(mutex_);
  if (!on_ || by_key_.contains(key)) return;
  while (used_ + size > options_.capacity) remove(std::prev(entries_.end()));
  entries_.push_front({.key = key, .item = std::move(item)});
  by_key_.emplace(key, entries_.begin());
  used_ += size;
}

void MovedMediaCache::remove(Entries::iterator entry) {
  used_ -= entry->item->size();
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

std::uint64_t MovedMediaCache::erase_spaces(const std::function<bool(const NamespaceId&)>& which) {
  std::uint64_t erased = 0;
  const MutexLock lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (which(entry->key.space)) {
      remove(entry);
      ++erased;
    }
    entry = next;
  }
  return erased;
}

bool MovedMediaCache::count(const Completion& bounded) {
  const MutexLock lock(mutex_);
  const bool sampled = answers_ % std::max(options_.sample_every, 1U) == 0;
  ++answers_;
  tokens_ += bounded.moved.value();
  return sampled;
}

// Tokens after the first that differs follow another text, so they say nothing.
void MovedMediaCache::compare(const Completion& bounded, const Completion& exact) {
  const auto parts = std::ranges::mismatch(bounded.tokens, exact.tokens);
  const auto same = static_cast<std::uint64_t>(parts.in1 - bounded.tokens.begin());
  const bool differs = parts.in1 != bounded.tokens.end() || parts.in2 != exact.tokens.end();
  std::string why;
  {
    const MutexLock lock(mutex_);
    ++samples_;
    same_ += same;
    other_ += differs ? 1 : 0;
    const double loss = loss_at_least(same_, other_);
    if (!on_ || loss <= options_.max_loss) return;
    on_ = false;
    entries_.clear();
    by_key_.clear();
    used_ = Bytes(0);
    why = fmt::format(
        "in {} samples {} of {} tokens differed: at least {:.4f} of them, and {:.4f} is allowed. "
        "KV "
        "of media is used at its own position only, until a restart",
        samples_, other_, same_ + other_, loss, options_.max_loss);
  }
  if (options_.on_disabled) options_.on_disabled(why);
}

MovedMediaStats MovedMediaCache::stats() const {
  const MutexLock lock(mutex_);
  return {.on = on_,
          .entries = entries_.size(),
          .used = used_,
          .answers = answers_,
          .tokens = tokens_,
          .samples = samples_,
          .same = same_,
          .other = other_,
          .loss_at_least = loss_at_least(same_, other_)};
}

}  // namespace afterimage
