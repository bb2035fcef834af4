// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/answer.h"
#include "afterimage/clock.h"
#include "afterimage/engine.h"
#include "afterimage/eviction_policy.h"
#include "afterimage/identity.h"
#include "afterimage/ids.h"
#include "afterimage/kv.h"
#include "afterimage/pressure.h"
#include "afterimage/question.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "afterimage/secret.h"
#include "afterimage/sequence.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"

namespace afterimage {

class Reuse;

/// Everything that identifies one request, derived once, by the reader of it. Refers to the request, which
/// outlives it.
struct RequestIdentity {
  const Request* request;
  std::vector<const MediaItem*> media;  // in order of appearance
  Fingerprint prints;
  Namespace space;
  NamespaceId root;  // of its KV prefixes
  /// nullopt: there is nothing to look up, or that was done before.
  std::optional<Question> question;
};

/// What a request took from the caches, by its keys: so that it can be brought up again before a
/// similar request comes.
struct PrefetchTarget {
  Fingerprint prints;  // of its media
  Namespace space;
  NamespaceId root;  // of its KV prefixes
  Sequence prompt;
};

/// What prefetching brought into memory.
struct Prefetched {
  std::uint64_t kv_tokens = 0;  // positions whose KV was loaded
  std::uint64_t encoder_outputs = 0;
};

/// Hashes every media item whose digest the request does not already carry. Entries that the request
/// makes are labelled with its tags, and with the day that `wall` says; nullptr: with no day, and without a
/// question if the engine's prompts hold the date.
///
/// Errors   kInvalidArgument: the engine does not name its model.
/// Threads  Any.
Result<RequestIdentity> identify(const Request& request, const Engine& engine, const Secret& root,
                                 const GenerateOptions& options, const WallClock* wall = nullptr);

/// The same without a question, for who has looked up the answer, or caches none. `space` is that of the
/// request's tenant under the engine's model.
///
/// Errors   kInvalidArgument: more tags than EntryLabels::kMaxTags.
/// Threads  Any.
Result<RequestIdentity> identify_inputs(const Request& request, const Engine& engine,
                                        Namespace space, const WallClock* wall = nullptr);

/// Where the embeddings of one media item of a request came from.
enum class MediaSource : unsigned char {
  kCovered,   // none are needed: the item lies in the resumed prefix
  kReused,    // the cache had them
  kRepeated,  // the same item stands earlier in this request
  kAwaited,   // another request was encoding the item
  kEncoded,   // this request encoded it, and the cache stored it
  kUncached,  // this request encoded it, and it does not fit the budget
  kLoaded,    // the tier below memory had them, or another process stored them there meanwhile
  kDeclined,  // the tier had them, but encoding the item again was expected to be quicker
  kPartly,    // this request encoded some of the item's parts; the others were there
};
/// "covered", "reused", "repeated", "awaited", "encoded", "uncached", "loaded", "declined", "partly".
std::string_view to_string(MediaSource source);

/// The parts of a request's media items, one element an item, in order of appearance. Empty: the
/// item is encoded as a whole.
using PartsOfMedia = std::vector<std::vector<MediaPart>>;

/// The size of a request's media item at a position.
using SizeOfMedia = std::function<MediaSize(std::size_t)>;

class AnswerCache;
class AnswerOnce;
class EncodeOnce;
class LeaseService;
class MediaPlan;
class MemoryBudget;
class MovedMediaCache;
class Plan;
class PrefillOnce;
class PrefixArchive;
class RunningRequests;
class SharedBudget;
class SplitMemory;
class Tier;
struct EncoderEntryInfo;
struct ReuseStats;

/// How answers are cached and served.
struct AnswerReuse {
  LookupRules rules;  // how far a question may be from the one that was answered
  std::optional<Duration> ttl = std::nullopt;  // absent: until evicted
  EntryCount max_entries = EntryCount(1'000'000);
};

/// A tenant's share of the budget: what others' entries never evict. While it is not used, others
/// use it. What the shares leave is everybody else's, together.
struct MemoryShare {
  std::string tenant;   // Request::tenant_name, or its tenant's text
  double fraction = 0;  // of the budget, as the governor sets it: above 0, at most 1 in sum
};

/// Use of media KV at other positions than where it was computed: such answers are bounded, not
/// exact. What they compute never enters a cache.
struct MovedMediaOptions {
  /// Of the engine that a certificate was made for; KV of others is not moved.
  KvOrigin certified{};
  TokenCount recomputed{};  // an item's first tokens, which are computed anyway
  double max_loss = 0.01;   // allowed share of answer tokens that differ from those without it
  /// One in so many bounded answers is computed again without it and compared; at least 1.
  std::uint32_t sample_every = 50;
  Bytes capacity = 256_MiB;  // of the items' KV, taken from the budget; at most half of it
  /// Called once, when the samples show that more than `max_loss` is lost, and nothing is moved any
  /// more. The text is for people.
  std::function<void(const std::string&)> on_disabled = {};
};

inline constexpr EntryCount kMinEntriesFromLoad = EntryCount::max();

struct ReuseOptions {
  Bytes budget = 4_GiB;  // of all caches together
  std::vector<MemoryShare> shares = {};
  EntryCount max_encoder_entries = EntryCount(1'000'000);
  /// New encoder outputs never push the cache below so many (EncoderCacheOptions::min_entries); pressure does.
  /// kMinEntriesFromLoad: as many as requests of the last minute held at a time.
  EntryCount min_encoder_entries = EntryCount(0);
  /// EncoderCacheOptions::on_evicted.
  std::function<void(const EncoderEntryInfo&)> on_encoder_evicted = {};
  std::string policy = "worth";  // eviction policy: one of policy_names()
  bool verify_hits = true;       // recompute checksums at every hit
  bool prefixes = true;          // cache KV: prefill once
  /// Cache the parts of media items, where the engine declares them. False: whole items only.
  bool parts = true;
  EntryCount max_sequences = EntryCount(1'000'000);
  std::uint64_t max_kv_tokens = UINT64_MAX;  // positions of KV in memory; at least 1
  /// Cache answers: answer once. nullopt: the engine answers every question.
  std::optional<AnswerReuse> answers = std::nullopt;
  /// A second copy of everything that is worth a write (weigh_writes), found again after eviction or by
  /// a later process with the same secret. Outlives the object. nullptr: memory only. An eighth of the
  /// budget, at most 256 MiB, then pays for entries in transit.
  Tier* tier = nullptr;
  /// False: load from the tier even where computing is expected to be quicker.
  bool weigh_loads = true;
  /// False: write every new entry to the tier, even where almost none is asked for again. With `leases`
  /// every one is written in any case.
  bool weigh_writes = true;
  /// Decides which process encodes and prefills what, if several store into the tier. Outlives the
  /// object. nullptr: this is the only process.
  LeaseService* leases = nullptr;
  /// The date, for the age of entries. Outlives the object. nullptr: the system's.
  const WallClock* wall = nullptr;
  /// nullopt: off; every answer is exact, as far as the engine is.
  std::optional<MovedMediaOptions> moved = std::nullopt;
  /// With a gauge, `budget` is an upper limit, and governor.idle limits how long entries stay unused.
  /// In critical modes, idle entries are evicted only if there is a tier, which has those that were worth
  /// a write.
  PressureOptions pressure;
};

/// What to erase: exactly one of these.
struct EraseTarget {
  std::optional<ContentDigest> media = std::nullopt;  // what was made from this item
  std::optional<std::string> tenant = std::nullopt;   // Request::tenant_name, or its tenant's text
  std::optional<std::string> model = std::nullopt;    // by its name, whatever its weights
  /// What requests with this tag made (Request::tags). What they found made by others stays.
  std::optional<std::string> tag = std::nullopt;
  /// What was made before this day of UTC (first_day_kept()). KV in memory has no age: all of it
  /// is erased, and later requests load young KV again from the tier.
  std::optional<std::chrono::sys_days> made_before = std::nullopt;
  bool everything = false;
};

/// Of what is at least so many days old, by the dates alone: nothing of `age` × 24 hours stays.
[[nodiscard]] std::chrono::sys_days first_day_kept(std::chrono::days age, const WallClock& wall);

/// What erase() removed.
struct EraseReport {
  EntryCount encoder_outputs;   // from memory
  std::uint64_t kv_tokens = 0;  // positions whose KV was in memory
  AnswerCount answers;          // from memory
  EntryCount moved;             // items whose KV was kept for other positions
  EntryCount stored;            // entries of the tier, of all kinds; where it is a stack: of the
                                // tier of it that had most
  /// Requests that began before and did not end in time. They may have stored something since, or
  /// hold what was erased: erase again.
  std::uint64_t unfinished = 0;
};

/// Afterimage in one process: the caches, their one budget, and the plan of each request.
///
/// Errors   kInvalidArgument: options that make no cache, or an unknown policy; kUnavailable: see
///          PressureController.
/// Threads  Any.
class Reuse {
 public:
  /// With a random secret: entries in a tier are not found again by another process.
  static Result<std::unique_ptr<Reuse>> create(const ReuseOptions& options = {});
  /// `root` is the installation's secret; every key depends on it. store_secret() and
  /// secret_in_file() give one that outlives the process.
  static Result<std::unique_ptr<Reuse>> create(const ReuseOptions& options, const Secret& root);
  /// `clock` outlives the object.
  static Result<std::unique_ptr<Reuse>> create(const ReuseOptions& options, const Secret& root,
                                               const Clock& clock);
  /// Requires that all plans are gone.
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
  /// nor encoded. `facts` are for the eviction policy. An item that has `parts` is looked up and
  /// encoded part by part; without a namespace in `prints`, whole. `size_of` is called
  /// of items that are not cached, for EncoderEntryFacts; empty: unknown.
  [[nodiscard]] MediaPlan plan_media(const Fingerprint& prints, const std::string& agent,
                                     std::size_t covered = 0, const RequestFacts& facts = {},
                                     const PartsOfMedia& parts = {},
                                     const SizeOfMedia& size_of = {});

  /// Brings into memory what the tier has of a target's KV and encoder outputs and memory lacks.
  /// `layout`: of the engine's KV; nullptr: none. Waits for the tier, and for a request that is
  /// prefilling the same prefix. Computes nothing; loads nothing while memory is short.
  Result<Prefetched> prefetch(const PrefetchTarget& target, const KvLayout* layout,
                              const std::stop_token& stop = {});

  /// Erases from all caches and from the tier, also what requests that are running now are making
  /// or using: it erases, waits up to `timeout` until they have ended, and erases again. Afterwards
  /// the item is encoded anew. Entries stored without labels are erased, too. Slow: it reads the
  /// labels of every stored entry.
  /// Errors   kInvalidArgument: not exactly one member of `target` is set. An error of the tier:
  ///          some entries may be left there; erase again.
  Result<EraseReport> erase(const EraseTarget& target, Duration timeout = std::chrono::seconds(30));

  /// Forgets the KV of media that is kept for other positions.
  void clear_moved();

  [[nodiscard]] bool has_tier() const;
  [[nodiscard]] EncodeOnce& encoder();
  /// nullptr: prefixes are off.
  [[nodiscard]] PrefillOnce* prefix();
  /// nullptr: answers are not cached.
  [[nodiscard]] AnswerOnce* answers();
  /// nullptr: answers are not cached.
  [[nodiscard]] AnswerCache* answer_cache();
  /// Requires that answers are cached.
  [[nodiscard]] const AnswerReuse& answer_options() const;
  /// nullptr: no gauge was given.
  [[nodiscard]] PressureController* pressure();
  /// The budget that all caches share, for what else belongs into it.
  [[nodiscard]] MemoryBudget& memory();
  [[nodiscard]] SharedBudget& shared_memory();
  [[nodiscard]] const Secret& secret() const;
  [[nodiscard]] const Clock& clock() const;
  [[nodiscard]] const WallClock& wall_clock() const;
  /// Notes that a request of this step begins, so that eviction knows which of the tenant's steps come
  /// later (WorkflowOrder), and names the step for RequestFacts. kNoStep: it is no step.
  [[nodiscard]] WorkflowStepId begin_step(const Request& request);
  /// ReuseStats: afterimage/reuse_stats.h.
  [[nodiscard]] ReuseStats stats() const;

 private:
  friend class Plan;
  struct State;
  explicit Reuse(std::unique_ptr<State> state);
  /// nullptr: prefixes are off, or there is no tier.
  [[nodiscard]] PrefixArchive* prefix_archive();
  /// nullptr: no other process stores into the tier.
  [[nodiscard]] LeaseService* leases();
  [[nodiscard]] RunningRequests& running();
  /// nullptr: media are cached as wholes.
  [[nodiscard]] SplitMemory* splits();
  /// nullptr: KV of media is used only where it was computed.
  [[nodiscard]] MovedMediaCache* moved_media();
  /// For erase(): whose KV the namespace has.
  void note_space(const NamespaceId& root, const Namespace& space);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
