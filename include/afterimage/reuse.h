// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "afterimage/answer.h"
#include "afterimage/clock.h"
#include "afterimage/eviction_policy.h"
#include "afterimage/identity.h"
#include "afterimage/ids.h"
#include "afterimage/model.h"
#include "afterimage/plan.h"
#include "afterimage/pressure_controller.h"
#include "afterimage/result.h"
#include "afterimage/secret.h"
#include "afterimage/units.h"

namespace afterimage {

class AnswerCache;
class AnswerOnce;
class EncodeOnce;
class LeaseService;
class PrefillOnce;
class PrefixArchive;
class Tier;
struct ReuseStats;

/// How answers are kept and given again.
struct AnswerReuse {
  LookupRules rules;  // how far a question may be from the one that was answered
  std::optional<Duration> ttl = std::nullopt;  // absent: as long as there is room
  EntryCount max_entries = EntryCount(1'000'000);
  /// serve() looks among the answers before it asks the engine. False: whoever stands before it
  /// has.
  bool in_serve = true;
};

struct ReuseOptions {
  Bytes budget = 4_GiB;  // of everything that is kept, together
  EntryCount max_encoder_entries = EntryCount(1'000'000);
  std::string policy = "worth";  // who leaves first: one of policy_names()
  bool verify_hits = true;       // recompute checksums at every hit
  bool prefixes = true;          // keep KV, too: prefill once
  EntryCount max_sequences = EntryCount(1'000'000);
  /// Keep answers, too: answer once. nullopt: every question is answered by the engine.
  std::optional<AnswerReuse> answers = std::nullopt;
  /// Where everything is kept a second time, and found again after it was evicted or by a later
  /// process that has the same secret; outlives the object. nullptr: nowhere. An eighth of the
  /// budget, at most 256 MiB, then pays for what is on its way.
  Tier* tier = nullptr;
  /// False: what the tier holds is loaded also where computing it is expected to be quicker.
  bool weigh_loads = true;
  /// Who encodes and prefills what, if other processes put into the tier, too; outlives the object.
  /// nullptr: nobody does.
  LeaseService* leases = nullptr;
  PressureOptions pressure;  // with a gauge, `budget` is what is kept at most
};

/// Afterimage in one process: the caches, their one budget, and the plan of each request.
///
/// Errors   kInvalidArgument: options that make no cache, or name no policy; kUnavailable: see
///          PressureController.
/// Threads  Any.
class Reuse {
 public:
  /// With a random secret: what a tier or other processes hold is not found again.
  static Result<std::unique_ptr<Reuse>> create(const ReuseOptions& options = {});
  /// `root` is this installation's secret: keys mean nothing without it. One that outlives the
  /// process comes from store_secret() or secret_in_file().
  static Result<std::unique_ptr<Reuse>> create(const ReuseOptions& options, const Secret& root);
  /// `clock` outlives the object.
  static Result<std::unique_ptr<Reuse>> create(const ReuseOptions& options, const Secret& root,
                                               const Clock& clock);
  /// Nobody holds a plan any more.
  ~Reuse();
  Reuse(const Reuse&) = delete;
  Reuse& operator=(const Reuse&) = delete;

  /// The namespace of one tenant under one model. kInvalidArgument: the model is not named.
  [[nodiscard]] Result<Namespace> space(const ModelIdentity& model, const TenantId& tenant) const;

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

  [[nodiscard]] EncodeOnce& encoder();
  /// nullptr: prefixes are off.
  [[nodiscard]] PrefillOnce* prefix();
  /// nullptr: answers are not kept, or not looked for by serve().
  [[nodiscard]] AnswerOnce* answers();
  /// nullptr: answers are not kept.
  [[nodiscard]] AnswerCache* answer_cache();
  /// How they are; only if they are kept.
  [[nodiscard]] const AnswerReuse& answer_options() const;
  /// nullptr: no gauge was given.
  [[nodiscard]] PressureController* pressure();
  [[nodiscard]] const Secret& secret() const;
  [[nodiscard]] const Clock& clock() const;
  /// afterimage/reuse_stats.h
  [[nodiscard]] ReuseStats stats() const;

 private:
  friend class Plan;
  struct State;
  explicit Reuse(std::unique_ptr<State> state);
  /// nullptr: prefixes are off, or there is no tier.
  [[nodiscard]] PrefixArchive* prefix_archive();
  /// nullptr: no other process stores into the tier.
  [[nodiscard]] LeaseService* leases();

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
