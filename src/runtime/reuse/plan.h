// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "afterimage/kv_layout.h"
#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/units.h"
#include "caches/answers/answer_once.h"
#include "caches/prefix/prefill_once.h"
#include "caches/prefix/prefix_archive.h"
#include "runtime/engine_api/engine.h"
#include "runtime/reuse/identify.h"
#include "runtime/reuse/media_plan.h"
#include "storage/memory/lease_service.h"

namespace afterimage {

class Reuse;

/// What one request found in every cache, and what remains to be computed. Three rungs, the cheapest
/// first: a cached answer; else the longest KV prefix that every layer group can resume; else
/// encoder outputs for the media that the prefix does not cover.
///
///   AFI_TRY(Plan plan, reuse.plan(identity, facts, stop));  // the answer, if there is one
///   if (!plan.is_answered()) {
///     AFI_TRY_VOID(plan.add_prefix(prompt, layout, stop));  // where to resume
///     plan.add_media(prompt);                               // pins, and what to encode
///     // … encode and commit what plan.media() lacks …
///     engine.generate_from(prompt, plan.media().embeddings(), options, plan.kv_use(origin));
///   }
///   plan.publish(completion, model);                        // or plan.fail(error)
///
/// Waiting  For answers, then prefixes, then encoder outputs, and never while holding what a request
///          on an earlier rung waits for: no two requests ever wait for each other.
/// Errors   Those of the request waited for, if they would meet every request; kCancelled: `stop`.
///          A cache or tier that fails is a miss.
/// Threads  One request's thread at a time. Not movable once kv_use() was called. Dropping it
///          releases every pin, lead and lease, and waiting requests go on without this one.
class [[nodiscard]] Plan {
 public:
  Plan(Plan&&) = default;
  Plan& operator=(Plan&&) = delete;

  /// Nothing is left to compute.
  [[nodiscard]] bool is_answered() const { return lookup_.answer.has_value(); }
  /// Every rung that was looked up, and its answer if is_answered(). No steps: the answer cache is
  /// off, or the request asks no question.
  [[nodiscard]] const AnswerLookup& answer() const { return lookup_; }

  /// Finds where to resume. Waits for a request, here or in another process, that is prefilling
  /// what this one needs. `prompt` and `layout` outlive the plan. Does nothing if prefixes are off.
  Result<void> add_prefix(const Sequence& prompt, const KvLayout& layout,
                          const std::stop_token& stop);
  [[nodiscard]] bool has_prefix() const { return leader_.has_value(); }
  /// Tokens that the engine restores; 0: it starts cold.
  [[nodiscard]] TokenCount resume() const;
  /// Requires has_prefix(). What the engine restores, and what it captures for the cache, which is
  /// committed as soon as the engine hands it out. Valid while the plan lives.
  [[nodiscard]] KvUse kv_use(const KvOrigin& origin);
  /// The cached KV could not be restored: the prompt will be computed from its start. Call
  /// add_media() again.
  void restart();

  /// Pins or claims the encoder output of every item that the prefix does not cover.
  void add_media(const Sequence& prompt);
  /// Requires add_media().
  [[nodiscard]] MediaPlan& media() { return *media_; }

  /// Stores the answer, if the model ended it, and hands it to every waiter.
  Result<void> publish(const Completion& completion, const std::string& model);
  /// The request failed. Waiters get an error that would meet them too; after any other, one of
  /// them takes over.
  void fail(const Error& error);

 private:
  friend class Reuse;
  Plan(Reuse& reuse, const RequestIdentity& identity, const RequestFacts& facts)
      : reuse_(&reuse), identity_(&identity), facts_(facts) {}
  Result<void> add_answer(const std::stop_token& stop);
  Result<void> load_prefix(PrefixArchive::Look look, const std::stop_token& stop);
  Result<void> lease_prefix(const std::stop_token& stop);
  void commit_prefix(KvSlice kv);

  Reuse* reuse_;
  const RequestIdentity* identity_;
  RequestFacts facts_;

  AnswerLookup lookup_;
  std::optional<AnswerLeader> answer_leader_;
  Duration answer_began_{0};

  const Sequence* prompt_ = nullptr;
  const KvLayout* layout_ = nullptr;
  std::optional<ArchivedPrompt> archived_;  // nullopt: KV is cached in memory only
  std::optional<PrefillLeader> leader_;
  std::unique_ptr<Lease> lease_;  // nullptr: no other process waits for this prefix
  KvSlice resume_from_;           // kept alive by the leader's match
  Duration prefill_began_{0};

  std::optional<MediaPlan> media_;
};

}  // namespace afterimage
