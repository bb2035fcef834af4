// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/prefix/prefill_once.h"

#include <algorithm>
#include <optional>

#include "afterimage/check.h"

namespace afterimage {

PrefillOnce::PrefillOnce(PrefixCache& cache, PrefillOnceOptions options)
    : options_(options), cache_(cache) {}

PrefillOnce::~PrefillOnce() {
  const MutexLock lock(mutex_);
  AFI_CHECK(held_ == 0);
}

Result<PrefixMatch> PrefillOnce::match(const NamespaceId& space, const Sequence& prompt) {
  while (true) {
    std::optional<PrefixMatch> found;
    std::vector<const Payload*> payloads;
    {
      const MutexLock lock(mutex_);
      AFI_TRY(PrefixMatch match, cache_.match(space, prompt));
      if (!match.holds()) return match;
      if (options_.verify_hits) payloads = cache_.payloads(match);
      found = PrefixMatch::handed_over(std::move(match), *this);
      ++held_;
    }
    const auto damaged = std::ranges::find_if_not(payloads, &Payload::intact);
    if (damaged == payloads.end()) return *std::move(found);
    const MutexLock lock(mutex_);
    cache_.discard_damaged(*found, *damaged);
    --held_;
    found = PrefixMatch::handed_over(*std::move(found), cache_);
    found.reset();  // through the cache itself: the lock is held already
  }
}

CachedKv PrefillOnce::kv(const PrefixMatch& match) const {
  const MutexLock lock(mutex_);
  return cache_.kv(match);
}

Result<PrefixInsertion> PrefillOnce::insert(const NamespaceId& space, const KvLayout& layout,
                                            const Sequence& sequence, const CapturedKv& kv) {
  std::optional<PrefixCache::Draft> draft;
  {
    const MutexLock lock(mutex_);
    AFI_TRY(draft, cache_.draft(space, layout, sequence, kv));
  }
  const auto filled = PrefixCache::fill(*draft, layout, kv);
  const MutexLock lock(mutex_);
  if (!filled.has_value()) {
    draft.reset();  // here, because it holds a prefix
    return std::unexpected(filled.error());
  }
  PrefixCache::Draft full = *std::move(draft);
  draft.reset();
  return cache_.commit(std::move(full), space, layout, sequence);
}

Result<PrefixExplanation> PrefillOnce::explain(const NamespaceId& space,
                                               const Sequence& prompt) const {
  const MutexLock lock(mutex_);
  return cache_.explain(space, prompt);
}

bool PrefillOnce::erase(const NamespaceId& space) {
  const MutexLock lock(mutex_);
  return cache_.erase(space);
}

void PrefillOnce::clear() {
  const MutexLock lock(mutex_);
  cache_.clear();
}

Bytes PrefillOnce::shed(Bytes wanted) {
  const MutexLock lock(mutex_);
  return cache_.shed(wanted);
}

PrefixCacheStats PrefillOnce::stats() const {
  const MutexLock lock(mutex_);
  return cache_.stats();
}

void PrefillOnce::check_invariants() const {
  const MutexLock lock(mutex_);
  cache_.check_invariants();
}

void PrefillOnce::let_go(const PrefixHold& hold) {
  const MutexLock lock(mutex_);
  --held_;
  cache_.let_go(hold);
}

}  // namespace afterimage
