// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "afterimage/answer_once.h"
#include "afterimage/memory_budget.h"
#include "afterimage/prefill_once.h"
#include "afterimage/prefix_cache.h"
#include "afterimage/reuse.h"
#include "caches/prefix/prefix_archive.h"
#include "runtime/reuse/moved_media.h"
#include "runtime/reuse/plan.h"
#include "runtime/reuse/running_requests.h"
#include "storage/memory/lease_loop.h"
#include "storage/memory/lease_service.h"

namespace afterimage {

struct Plan::State {
  State(Reuse& its_reuse, const RequestIdentity& its_identity, const RequestFacts& its_facts)
      : running(its_reuse.running().begin()),
        reuse(&its_reuse),
        identity(&its_identity),
        facts(its_facts) {}

  Result<void> add_answer(const std::stop_token& stop);
  Result<void> load_prefix(PrefixArchive::Look look, const std::stop_token& stop);
  Result<void> load_aside(PrefixArchive::Look look, const std::stop_token& stop);
  Result<void> lease_prefix(const std::stop_token& stop);
  Result<std::uint64_t> prefetch_prefix(const Sequence& sequence, const KvLayout& its_layout,
                                        const std::stop_token& stop);
  void commit_prefix(KvSlice kv);
  /// `engine`: for the sizes of items; nullptr: unknown. `parts` may be empty.
  void add_media(const Sequence& sequence, const Engine* engine, PartsOfMedia parts = {});
  void keep_media(const KvSlice& kv);
  void want_exact_rows(KvUse& use);
  void commit_end(KvSlice kv, std::span<const TokenId> fed_back);
  [[nodiscard]] TokenCount capture_from(TokenCount at) const;
  [[nodiscard]] TokenCount resume() const;
  Result<std::shared_ptr<const SplitMedia>> split(std::size_t item, const Engine& engine);

  RunningRequests::Token running;  // first: until everything else is gone
  Reuse* reuse;
  const RequestIdentity* identity;
  RequestFacts facts;

  AnswerLookup lookup;
  std::optional<AnswerLeader> answer_leader;
  Duration answer_began{0};

  const Sequence* prompt = nullptr;
  const KvLayout* layout = nullptr;
  std::optional<ArchivedPrompt> archived;  // nullopt: KV is cached in memory only
  std::optional<PrefillLeader> leader;
  std::unique_ptr<Lease> lease;  // nullptr: no other process waits for this prefix
  /// KV that was loaded for this request alone, because the cache admits nothing.
  struct Aside {
    MemoryBudget budget{Bytes::max()};  // the transfers' budget pays for what was loaded
    std::unique_ptr<PrefixCache> cache;
    std::optional<PrefixMatch> match;  // the longest; before the cache it is destroyed
  };
  std::unique_ptr<Aside> aside;  // nullptr: none, or no more than the cache has
  KvSlice resume_from;           // kept alive by the match of the leader, or the one aside
  Duration prefill_began{0};

  std::vector<TokenPlace> places;  // of the first token of each media item; empty: nothing is moved
  std::vector<std::shared_ptr<const MovedMediaCache::Item>> moved_items;
  std::vector<MovedMedia> moved;  // refer to those

  std::optional<MediaPlan> media;
  Duration split_time{0};
  bool is_split = false;  // some items of `media` are in parts
  /// One a media item; nullptr: not split, or not needed, since its parts were known.
  std::vector<std::shared_ptr<const SplitMedia>> splits;
};

}  // namespace afterimage
