// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "afterimage/result.h"
#include "caches/answers/answer_cache.h"
#include "caches/answers/answer_once.h"
#include "caches/encoder/encode_once.h"
#include "caches/encoder/encoder_archive.h"
#include "caches/encoder/encoder_cache.h"
#include "caches/identity/fingerprint.h"
#include "caches/identity/keys.h"
#include "caches/prefix/prefill_once.h"
#include "caches/prefix/prefix_archive.h"
#include "caches/prefix/prefix_cache.h"
#include "foundation/platform/clock.h"
#include "foundation/platform/mutex.h"
#include "policy/eviction/shared_budget.h"
#include "policy/pressure/pressure_controller.h"
#include "runtime/reuse/plan.h"
#include "storage/memory/budget.h"
#include "storage/memory/lease_service.h"
#include "storage/memory/load_or_compute.h"
#include "storage/memory/tier.h"

namespace afterimage {

/// How answers are cached and served.
struct AnswerReuse {
  LookupRules rules;  // how far a question may be from the one that was answered
  std::optional<Duration> ttl = std::nullopt;  // absent: until evicted
  EntryCount max_entries = EntryCount(1'000'000);
  /// serve() looks answers up before it asks the engine. False: the caller has done so already.
  bool in_serve = true;
};

struct ReuseOptions {
  Bytes budget = 4_GiB;  // of all caches together
  EntryCount max_encoder_entries = EntryCount(1'000'000);
  std::string policy = "worth";  // eviction policy: one of policy_names()
  bool verify_hits = true;       // recompute checksums at every hit
  bool prefixes = true;          // cache KV: prefill once
  EntryCount max_sequences = EntryCount(1'000'000);
  /// Cache answers: answer once. nullopt: the engine answers every question.
  std::optional<AnswerReuse> answers = std::nullopt;
  /// A second copy of everything, found again after eviction or by a later process with the same
  /// secret. Outlives the object. nullptr: memory only. An eighth of the budget, at most 256 MiB,
  /// then pays for entries in transit.
  Tier* tier = nullptr;
  /// False: load from the tier even where computing is expected to be quicker.
  bool weigh_loads = true;
  /// Decides which process encodes and prefills what, if several store into the tier. Outlives the
  /// object. nullptr: this is the only process.
  LeaseService* leases = nullptr;
  PressureOptions pressure;  // with a gauge, `budget` is an upper limit
};

/// Counters since the start.
struct ReuseStats {
  EncoderCacheStats encoder;
  EncodeOnceStats encodes;
  PrefixCacheStats prefix;
  PrefillOnceStats prefills;
  AnswerCacheStats answers;
  AnswerOnceStats answering;
  EncoderArchiveStats encoder_archive;
  PrefixArchiveStats prefix_archive;
  LoadOrComputeStats loads;                         // from the tier
  std::optional<PressureControllerStats> governed;  // nullopt: no gauge was given
  Bytes budget;
  Bytes used;
  Bytes peak;
};

/// Afterimage in one process: the caches, their one budget, and the plan of each request.
///
/// Errors   kInvalidArgument: options that make no cache, or an unknown policy; kUnavailable: see
///          PressureController.
/// Threads  Any.
class Reuse {
 public:
  /// `root` is the installation's secret; every key depends on it. `clock` outlives the object.
  static Result<std::unique_ptr<Reuse>> create(const ReuseOptions& options, const Secret& root,
                                               const Clock& clock);

  /// The namespace of one tenant under one model. kInvalidArgument: the model is not named.
  [[nodiscard]] Result<Namespace> space(const ModelIdentity& model, const TenantId& tenant) const {
    return Namespace::of(model, tenant, root_);
  }

  /// Plans one request: its answer at once, waiting for an identical request in flight; its prefix
  /// and media when the plan is asked for them. `identity` outlives the plan.
  Result<Plan> plan(const RequestIdentity& identity, const RequestFacts& facts,
                    const std::stop_token& stop = {});

  /// Plans media alone: looks every item up once, pins what is cached, and leads or joins the
  /// encoding of the rest. `agent` names who asks, for the count of agents that share an entry;
  /// empty: unknown. The first `covered` items lie in a resumed prefix: they are neither looked up
  /// nor encoded. `facts` are for the eviction policy.
  [[nodiscard]] MediaPlan plan_media(const Fingerprint& prints, const std::string& agent,
                                     std::size_t covered = 0, const RequestFacts& facts = {});

  [[nodiscard]] EncodeOnce& encoder() { return *front_; }
  /// nullptr: prefixes are off.
  [[nodiscard]] PrefillOnce* prefix() { return prefill_.get(); }
  /// nullptr: answers are not cached, or not looked up by serve().
  [[nodiscard]] AnswerOnce* answers() { return answer_once_.get(); }
  /// nullptr: answers are not cached.
  [[nodiscard]] AnswerCache* answer_cache() { return answer_cache_.get(); }
  /// Requires that answers are cached.
  [[nodiscard]] const AnswerReuse& answer_options() const { return *answer_options_; }
  /// nullptr: prefixes are off, or there is no tier.
  [[nodiscard]] PrefixArchive* prefix_archive() { return prefix_archive_.get(); }
  /// nullptr: no other process stores into the tier.
  [[nodiscard]] LeaseService* leases() { return leases_; }
  /// nullptr: no gauge was given.
  [[nodiscard]] PressureController* pressure() { return pressure_.get(); }
  [[nodiscard]] const Secret& secret() const { return root_; }
  [[nodiscard]] const Clock& clock() const { return clock_; }
  [[nodiscard]] ReuseStats stats() const;

 private:
  Reuse(const ReuseOptions& options, const Secret& root, const Clock& clock);
  AgentId agent_id(const std::string& agent);

  Secret root_;
  const Clock& clock_;
  LeaseService* leases_;
  MemoryBudget transfer_;  // pays for entries between the tier and the caches
  MemoryBudget budget_;
  SharedBudget shared_{budget_};
  std::unique_ptr<LoadOrCompute> load_or_compute_;  // nullptr: always load
  std::unique_ptr<EncoderArchive> encoder_archive_;
  std::unique_ptr<PrefixArchive> prefix_archive_;
  std::unique_ptr<EncoderCache> cache_;
  std::unique_ptr<PrefixCache> prefixes_;
  std::unique_ptr<PrefillOnce> prefill_;
  std::optional<AnswerReuse> answer_options_;
  std::unique_ptr<AnswerCache> answer_cache_;
  std::unique_ptr<AnswerOnce> answer_once_;
  std::unique_ptr<EncodeOnce> front_;  // after the caches: destroyed before them
  Mutex agents_mutex_;
  std::map<std::string, AgentId> agents_ AFI_GUARDED_BY(agents_mutex_);
  std::unique_ptr<PressureController> pressure_;  // last: its thread uses the caches
};

}  // namespace afterimage
