// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/reuse.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <map>
#include <ranges>
#include <span>
#include <utility>

#include "afterimage/memory_budget.h"
#include "afterimage/reuse_stats.h"
#include "afterimage/secret.h"
#include "caches/encoder/encoder_archive.h"
#include "caches/prefix/prefix_archive.h"
#include "caches/prefix/prefix_draft.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/wall_clocks.h"
#include "foundation/types/digest_hash.h"
#include "policy/eviction/governed_policy.h"
#include "runtime/reuse/document_pages.h"
#include "runtime/reuse/media_plan_state.h"
#include "runtime/reuse/moved_media.h"
#include "runtime/reuse/plan.h"
#include "runtime/reuse/running_requests.h"
#include "runtime/reuse/split_memory.h"
#include "storage/memory/load_or_compute.h"

namespace afterimage {
namespace {

// Names come with requests; a client that invents one each time must not grow a table for ever.
constexpr std::size_t kMaxNamedAgents = 100'000;
constexpr std::size_t kMaxSpaces = 10'000;
constexpr std::size_t kMaxSpaceLabels = 256;

/// What is between tier and caches is memory like any other: the budget is for both.
Bytes transfer_bytes(const ReuseOptions& options) {
  return options.tier == nullptr ? Bytes(0) : std::min(256_MiB, Bytes(options.budget.value() / 8));
}

/// The part of the budget that holds media KV for other positions.
Bytes moved_bytes(const ReuseOptions& options) {
  if (!options.moved.has_value()) return Bytes(0);
  return std::min(options.moved->capacity, Bytes(options.budget.value() / 2));
}

std::vector<OwnerShare> owners_of(const std::vector<MemoryShare>& shares, const Secret& root) {
  const EntryLabels labels(root);
  std::vector<OwnerShare> owners;
  for (const MemoryShare& share : shares) {
    owners.push_back(
        {.name = share.tenant, .owner = labels.tenant(share.tenant), .fraction = share.fraction});
  }
  return owners;
}

/// The owner of an answer, by its tags: of its tenant, or, if tenants share it, of their group.
class AnswerOwners {
 public:
  explicit AnswerOwners(const Secret& root) : labels_(root) {}
  EntryLabel operator()(std::span<const std::string> tags) const {
    for (const std::string& tag : std::views::reverse(tags)) {
      if (tag.starts_with("tenant:")) return labels_.tag(tag);
    }
    return {};
  }

 private:
  EntryLabels labels_;
};

/// The tier gets a copy of each entry when the entry is made, so an idle entry is offloaded by evicting
/// it. Without a tier the entry would have to be computed again, under pressure.
PressureOptions pressure_of(const ReuseOptions& options) {
  PressureOptions pressure = options.pressure;
  if (options.tier == nullptr) pressure.governor.idle.offload = std::nullopt;
  return pressure;
}

}  // namespace

struct Reuse::State {
  State(const ReuseOptions& options, const Secret& its_root, const Clock& its_clock)
      : root(its_root),
        labels(its_root),
        clock(its_clock),
        wall(options.wall == nullptr ? system_wall : *options.wall),
        tier(options.tier),
        leases(options.leases),
        transfer(transfer_bytes(options)),
        budget(options.budget - transfer_bytes(options) - moved_bytes(options)) {
    if (options.moved.has_value()) {
      MovedMediaOptions own = *options.moved;
      own.capacity = moved_bytes(options);
      moved = std::make_unique<MovedMediaCache>(std::move(own));
    }
    if (options.parts) splits = std::make_unique<SplitMemory>();
    if (options.tier == nullptr) return;
    if (options.weigh_loads) load_or_compute = std::make_unique<LoadOrCompute>(clock);
    LoadOrCompute* const quicker = load_or_compute.get();
    // Where several processes share a tier, each sees only its own part of the returns.
    const bool weigh_writes = options.weigh_writes && options.leases == nullptr;
    WriteAdmission* const of_outputs = weigh_writes ? &output_writes : nullptr;
    encoder_archive =
        std::make_unique<EncoderArchive>(*options.tier, transfer, quicker, of_outputs);
    if (options.prefixes) {
      prefix_archive = std::make_unique<PrefixArchive>(*options.tier, transfer, quicker,
                                                       weigh_writes ? &kv_writes : nullptr);
    }
  }
  AgentId agent_id(const std::string& agent);
  [[nodiscard]] std::vector<TenantMemory> tenants_memory() const;
  [[nodiscard]] std::uint64_t known_agents() {
    const MutexLock lock(agents_mutex);
    return agents.size();
  }
  [[nodiscard]] Result<EntryFilter> filter_of(const EraseTarget& target) const;
  EraseReport erase_now(const EraseTarget& target, const EntryFilter& filter);
  /// The owner of a namespace's KV.
  [[nodiscard]] EntryLabel owner_of(const NamespaceId& space) {
    const MutexLock lock(spaces_mutex);
    const auto known = spaces.find(space);
    return known == spaces.end() ? EntryLabel() : known->second.owner;
  }

  Secret root;
  EntryLabels labels;
  RunningRequests running;
  const Clock& clock;
  SystemWallClock system_wall;
  const WallClock& wall;
  Tier* tier;  // nullptr: memory only
  LeaseService* leases;
  MemoryBudget transfer;  // pays for entries between the tier and the caches
  MemoryBudget budget;
  SharedBudget shared{budget};
  std::shared_ptr<WorkflowOrder> workflows = std::make_shared<WorkflowOrder>();
  std::shared_ptr<MemoryShares> shares;            // nullptr: no tenant has a share
  std::unique_ptr<LoadOrCompute> load_or_compute;  // nullptr: always load
  WriteAdmission output_writes;
  WriteAdmission kv_writes;
  std::unique_ptr<EncoderArchive> encoder_archive;
  std::unique_ptr<PrefixArchive> prefix_archive;
  std::unique_ptr<SplitMemory> splits;     // nullptr: media are cached as wholes
  std::unique_ptr<MovedMediaCache> moved;  // nullptr: KV is used only where it was computed
  std::unique_ptr<EncoderCache> cache;
  std::unique_ptr<LiveLoad> live_load;  // nullptr: the floor is fixed
  std::unique_ptr<PrefixCache> prefixes;
  std::unique_ptr<PrefillOnce> prefill;
  std::optional<AnswerReuse> answer_options;
  std::unique_ptr<AnswerCache> answer_cache;
  std::unique_ptr<AnswerOnce> answer_once;
  std::unique_ptr<EncodeOnce> front;  // after the caches: destroyed before them
  Mutex agents_mutex;
  std::map<std::string, AgentId> agents AFI_GUARDED_BY(agents_mutex);
  Mutex spaces_mutex;
  /// Of a namespace.
  struct SpaceLabels {
    EntryLabel owner;
    std::vector<EntryLabel> labels;  // of all of its requests; empty: too many, it has any label
  };
  /// Of the namespaces with KV in memory, and of some others.
  boost::unordered_flat_map<NamespaceId, SpaceLabels, DigestHash> spaces
      AFI_GUARDED_BY(spaces_mutex);
  std::unique_ptr<PressureController> pressure;  // last: its thread uses the caches
};

Reuse::Reuse(std::unique_ptr<State> state) : state_(std::move(state)) {}

Reuse::~Reuse() = default;

bool Reuse::has_tier() const { return state_->tier != nullptr; }
EncodeOnce& Reuse::encoder() { return *state_->front; }
PrefillOnce* Reuse::prefix() { return state_->prefill.get(); }
AnswerOnce* Reuse::answers() { return state_->answer_once.get(); }
AnswerCache* Reuse::answer_cache() { return state_->answer_cache.get(); }
const AnswerReuse& Reuse::answer_options() const { return *state_->answer_options; }
PressureController* Reuse::pressure() { return state_->pressure.get(); }
MemoryBudget& Reuse::memory() { return state_->budget; }
SharedBudget& Reuse::shared_memory() { return state_->shared; }
const Secret& Reuse::secret() const { return state_->root; }
const Clock& Reuse::clock() const { return state_->clock; }
const WallClock& Reuse::wall_clock() const { return state_->wall; }
RunningRequests& Reuse::running() { return state_->running; }
PrefixArchive* Reuse::prefix_archive() { return state_->prefix_archive.get(); }
SplitMemory* Reuse::splits() { return state_->splits.get(); }
void Reuse::clear_moved() {
  if (state_->moved == nullptr) return;
  state_->moved->erase_spaces([](const NamespaceId&) { return true; });
}
MovedMediaCache* Reuse::moved_media() { return state_->moved.get(); }
LeaseService* Reuse::leases() { return state_->leases; }

Result<Namespace> Reuse::space(const ModelIdentity& model, const TenantId& tenant) const {
  return Namespace::of(model, tenant, state_->root);
}

Result<std::unique_ptr<Reuse>> Reuse::create(const ReuseOptions& options) {
  AFI_TRY(const Secret root, random_secret());
  return create(options, root);
}

Result<std::unique_ptr<Reuse>> Reuse::create(const ReuseOptions& options, const Secret& root) {
  static const SystemClock kClock;
  return create(options, root, kClock);
}

Result<std::unique_ptr<Reuse>> Reuse::create(const ReuseOptions& options, const Secret& root,
                                             const Clock& clock) {
  auto state = std::make_unique<State>(options, root, clock);
  if (!options.shares.empty()) {
    AFI_TRY(state->shares, MemoryShares::create(owners_of(options.shares, root), state->budget));
  }
  const PressureOptions pressure = pressure_of(options);
  const GovernedPolicyOptions policy{
      .policy = options.policy,
      .shares = state->shares,
      .keep_idle_order = pressure.gauge != nullptr && pressure.governor.idle.any(),
      .workflows = state->workflows};
  EncoderCacheOptions cache_options;
  cache_options.max_entries = options.max_encoder_entries;
  const bool by_load = options.min_encoder_entries == kMinEntriesFromLoad;
  if (!by_load) cache_options.min_entries = options.min_encoder_entries;
  cache_options.on_evicted = options.on_encoder_evicted;
  AFI_TRY(cache_options.policy, make_governed_policy(policy));
  AFI_TRY(state->cache, EncoderCache::create(std::move(cache_options), state->budget));
  state->front = std::make_unique<EncodeOnce>(
      *state->cache, clock,
      EncodeOnceOptions{.verify_hits = options.verify_hits, .shared = &state->shared});
  state->shared.join(*state->cache);
  if (by_load) state->live_load = std::make_unique<LiveLoad>(*state->cache, clock);
  if (options.prefixes) {
    PrefixCacheOptions prefix_options;
    prefix_options.max_sequences = options.max_sequences;
    prefix_options.max_tokens = options.max_kv_tokens;
    AFI_TRY(prefix_options.policy, make_governed_policy(policy));
    prefix_options.owner_of = [it = state.get()](const NamespaceId& space) {
      return it->owner_of(space);
    };
    prefix_options.shared = &state->shared;
    AFI_TRY(state->prefixes, PrefixCache::create(std::move(prefix_options), state->budget));
    state->prefill = std::make_unique<PrefillOnce>(
        *state->prefixes, PrefillOnceOptions{.verify_hits = options.verify_hits});
    state->shared.join(*state->prefixes);
  }
  if (options.answers.has_value()) {
    state->answer_options = options.answers;
    AnswerCacheOptions answer_options{
        .max_entries = options.answers->max_entries, .policy = nullptr, .shared = &state->shared};
    AFI_TRY(answer_options.policy, make_governed_policy(policy));
    if (state->shares != nullptr) answer_options.owner_of = AnswerOwners(root);
    AFI_TRY(state->answer_cache,
            AnswerCache::create(std::move(answer_options), state->budget, clock));
    state->answer_once = std::make_unique<AnswerOnce>(*state->answer_cache, clock);
    state->shared.join(*state->answer_cache);
  }
  if (pressure.gauge != nullptr) {
    AFI_TRY(state->pressure, PressureController::create(pressure, state->shared, clock));
  }
  return std::unique_ptr<Reuse>(new Reuse(std::move(state)));
}

MediaPlan Reuse::plan_media(const Fingerprint& prints, const std::string& agent,
                            std::size_t covered, const RequestFacts& facts,
                            const PartsOfMedia& parts, const SizeOfMedia& size_of) {
  RunningRequests::Token running = state_->running.begin();
  MediaPlan::State::Needed needed = MediaPlan::State::needed(prints, covered, parts);
  const AgentId asking = state_->agent_id(agent);
  MediaPlan::State::claim(needed.outputs, prints, size_of, *state_->front, asking);
  auto plan = std::make_unique<MediaPlan::State>(
      std::move(running), *state_->front, state_->encoder_archive.get(), state_->leases, facts,
      asking, std::move(needed.items), std::move(needed.outputs));
  if (state_->live_load != nullptr) {
    plan->in_flight.emplace(*state_->live_load, plan->outputs.size());
  }
  for (MediaPlan::State::Output& output : plan->outputs) {
    if (output.claim.has_value()) plan->load(output);
  }
  return MediaPlan(std::move(plan));
}

std::chrono::sys_days first_day_kept(std::chrono::days age, const WallClock& wall) {
  return std::chrono::floor<std::chrono::days>(wall.now()) - age + std::chrono::days(1);
}

WorkflowStepId Reuse::begin_step(const Request& request) {
  if (request.hints.workflow.workflow.empty()) return kNoStep;
  const std::string& owner =
      request.tenant_name.empty() ? request.tenant.text() : request.tenant_name;
  return state_->workflows->begin(state_->labels.tenant(owner), request.hints.workflow);
}

void Reuse::note_space(const NamespaceId& root, const Namespace& space) {
  const std::vector<EntryLabel> labels = space.labels(std::span<const EntryLabel>());
  const MutexLock lock(state_->spaces_mutex);
  const auto known = state_->spaces.find(root);
  if (known == state_->spaces.end()) {
    // A namespace that was forgotten is erased with every tenant, model and tag.
    if (state_->spaces.size() >= kMaxSpaces) state_->spaces.clear();
    state_->spaces.emplace(root, State::SpaceLabels{.owner = labels.front(), .labels = labels});
    return;
  }
  std::vector<EntryLabel>& of_space = known->second.labels;
  if (of_space.empty()) return;
  for (const EntryLabel label : labels) {
    if (std::ranges::find(of_space, label) == of_space.end()) of_space.push_back(label);
  }
  if (of_space.size() > kMaxSpaceLabels) of_space.clear();
}

Result<EraseReport> Reuse::erase(const EraseTarget& target, Duration timeout) {
  AFI_TRY(const EntryFilter filter, state_->filter_of(target));
  // A running request may load an entry into memory just before the tier erases it. The second sweep,
  // after that request has ended, erases the copy.
  const auto sweep = [&](EraseReport& report) -> Result<void> {
    const EraseReport here = state_->erase_now(target, filter);
    report.encoder_outputs += here.encoder_outputs;
    report.kv_tokens += here.kv_tokens;
    report.answers += here.answers;
    report.moved += here.moved;
    if (state_->tier == nullptr) return {};
    AFI_TRY(const EntryCount stored, state_->tier->erase_matching(filter));
    report.stored += stored;
    return {};
  };
  EraseReport report;
  AFI_TRY_VOID(sweep(report));
  report.unfinished = state_->running.wait_for_earlier(timeout);
  AFI_TRY_VOID(sweep(report));
  return report;
}

Result<EntryFilter> Reuse::State::filter_of(const EraseTarget& target) const {
  const int named = (target.media.has_value() ? 1 : 0) + (target.tenant.has_value() ? 1 : 0) +
                    (target.model.has_value() ? 1 : 0) + (target.tag.has_value() ? 1 : 0) +
                    (target.made_before.has_value() ? 1 : 0) + (target.everything ? 1 : 0);
  if (named != 1) {
    return fail(ErrorCode::kInvalidArgument,
                "name exactly one of media, tenant, model, tag, an age and everything to erase");
  }
  if (target.made_before.has_value()) {
    return labels.made_before(*target.made_before,
                              std::chrono::floor<std::chrono::days>(wall.now()));
  }
  EntryFilter filter;
  if (target.media.has_value()) filter = labels.made_from(*target.media);
  if (target.tenant.has_value()) filter.any_of = {labels.tenant(*target.tenant)};
  if (target.model.has_value()) filter.any_of = {labels.model(*target.model)};
  if (target.tag.has_value()) filter.any_of = {labels.tag(*target.tag)};
  return filter;
}

/// From memory.
EraseReport Reuse::State::erase_now(const EraseTarget& target, const EntryFilter& filter) {
  EraseReport report;
  report.encoder_outputs = front->cache().erase_matching(filter);
  if (splits != nullptr) splits->forget_parts();
  const auto matches = [&](const NamespaceId& space) {
    const MutexLock lock(spaces_mutex);
    const auto known = spaces.find(space);
    // KV in memory has no age; the tier has a copy of what is young enough.
    return known == spaces.end() || target.made_before.has_value() ||
           filter.matches(known->second.labels);
  };
  if (moved != nullptr) {
    // KV of any item may have been computed after the erased one, and depends on it then.
    report.moved = EntryCount(moved->erase_spaces(
        [&](const NamespaceId& space) { return target.media.has_value() || matches(space); }));
  }
  if (prefixes != nullptr) {
    // Of a media item also the KV of namespaces in which pages of documents were used.
    if (target.media.has_value()) report.kv_tokens = prefixes->erase_media(*target.media);
    report.kv_tokens += prefixes->erase_spaces(matches);
  }
  if (answer_cache == nullptr) return report;
  AnswerFilter answers;
  if (target.media.has_value()) answers.tag = "media:" + target.media->hex();
  if (target.tenant.has_value()) answers.tag = "tenant:" + *target.tenant;
  if (target.model.has_value()) answers.tag = "model:" + *target.model;
  if (target.tag.has_value()) answers.tag = *target.tag;
  if (target.made_before.has_value()) answers.older_than = wall.now() - *target.made_before;
  report.answers = answer_cache->erase(answers);
  if (target.media.has_value()) {
    report.answers += answer_cache->erase(AnswerFilter{.tag = kAnyMediaTag});
  }
  return report;
}

ReuseStats Reuse::stats() const {
  const State& state = *state_;
  return {
      .encoder = state.front->cache().stats(),
      .encodes = state.front->stats(),
      .prefix = state.prefixes == nullptr ? PrefixCacheStats() : state.prefixes->stats(),
      .prefills = state.prefill == nullptr ? PrefillOnceStats() : state.prefill->stats(),
      .answers = state.answer_cache == nullptr ? AnswerCacheStats() : state.answer_cache->stats(),
      .answering = state.answer_once == nullptr ? AnswerOnceStats() : state.answer_once->stats(),
      .encoder_archive =
          state.encoder_archive == nullptr ? EncoderArchiveStats() : state.encoder_archive->stats(),
      .prefix_archive =
          state.prefix_archive == nullptr ? PrefixArchiveStats() : state.prefix_archive->stats(),
      .loads =
          state.load_or_compute == nullptr ? LoadOrComputeStats() : state.load_or_compute->stats(),
      .agents = state_->known_agents(),
      .governed = state.pressure == nullptr ? std::nullopt : std::optional(state.pressure->stats()),
      .moved = state.moved == nullptr ? std::nullopt : std::optional(state.moved->stats()),
      .shares = state.tenants_memory(),
      .budget = state.budget.capacity() + state.transfer.capacity(),
      .used = state.budget.used() + state.transfer.used(),
      .peak = state.budget.peak() + state.transfer.peak()};
}

std::vector<TenantMemory> Reuse::State::tenants_memory() const {
  std::vector<TenantMemory> memory;
  if (shares == nullptr) return memory;
  const auto add = [&](const std::string& tenant, std::size_t group) {
    memory.push_back(
        {.tenant = tenant, .share = shares->share(group), .used = shares->used(group)});
  };
  for (std::size_t i = 0; i < shares->shares().size(); ++i) add(shares->shares()[i].name, i + 1);
  add("", MemoryShares::kEverybodyElse);
  return memory;
}

AgentId Reuse::State::agent_id(const std::string& agent) {
  if (agent.empty()) return kNoAgent;
  const MutexLock lock(agents_mutex);
  if (const auto it = agents.find(agent); it != agents.end()) return it->second;
  if (agents.size() >= kMaxNamedAgents) return kNoAgent;
  const auto id = static_cast<AgentId>(agents.size());
  agents.emplace(agent, id);
  return id;
}

}  // namespace afterimage
