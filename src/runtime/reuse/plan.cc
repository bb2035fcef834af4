// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/reuse/plan.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/answer_once.h"
#include "afterimage/prefill_once.h"
#include "afterimage/reuse.h"
#include "caches/prefix/captured_kv.h"
#include "caches/prefix/prefix_archive.h"
#include "caches/prefix/resume_point.h"
#include "runtime/reuse/document_pages.h"
#include "runtime/reuse/plan_state.h"

namespace afterimage {

namespace {

/// As the gateway tags its answers: what erase() finds them by.
std::vector<std::string> tags_of(const RequestIdentity& identity, const std::string& model) {
  const Request& request = *identity.request;
  const std::string& tenant =
      request.tenant_name.empty() ? request.tenant.text() : request.tenant_name;
  std::vector<std::string> tags{"model:" + model, "tenant:" + tenant};
  for (const ContentDigest& content : identity.prints.contents) {
    tags.push_back("media:" + content.hex());
  }
  if (has_pages(request)) tags.emplace_back(kAnyMediaTag);
  tags.insert(tags.begin(), request.tags.begin(), request.tags.end());
  return tags;
}

}  // namespace

Plan::Plan(std::unique_ptr<State> state) : state_(std::move(state)) {}

Plan::Plan(Plan&& other) noexcept = default;
Plan& Plan::operator=(Plan&& other) noexcept = default;
Plan::~Plan() = default;

Result<Plan> Reuse::plan(const RequestIdentity& identity, const RequestFacts& facts,
                         const std::stop_token& stop) {
  auto state = std::make_unique<Plan::State>(*this, identity, facts);
  AFI_TRY_VOID(state->add_answer(stop));
  return Plan(std::move(state));
}

bool Plan::is_answered() const { return state_->lookup.answer.has_value(); }
const AnswerLookup& Plan::answer() const { return state_->lookup; }
bool Plan::has_prefix() const { return state_->leader.has_value(); }
MediaPlan& Plan::media() { return *state_->media; }

// The answer.

Result<void> Plan::State::add_answer(const std::stop_token& stop) {
  if (reuse->answers() == nullptr || !identity->question.has_value()) return {};
  Question question = *identity->question;
  const LookupRules& rules = reuse->answer_options().rules;
  const auto lead = [&](AnswerLeader mine) {
    lookup.steps = mine.looked();
    answer_leader = std::move(mine);
    answer_began = reuse->clock().now();
  };
  for (;;) {
    AnswerOnce::Claim claim = reuse->answers()->claim(question, rules);
    if (auto* found = std::get_if<AnswerLookup>(&claim)) {
      lookup = std::move(*found);
      return {};
    }
    if (auto* mine = std::get_if<AnswerLeader>(&claim)) {
      lead(std::move(*mine));
      return {};
    }
    AFI_TRY(auto waited, std::get<AnswerWaiter>(std::move(claim)).wait(stop));
    if (auto* mine = std::get_if<AnswerLeader>(&waited)) {
      lead(std::move(*mine));
      return {};
    }
    // Without an answer, another question's leader took over, and its answer is not for this one.
    AnswerLookup& found = std::get<AnswerLookup>(waited);
    if (!found.answer.has_value()) continue;
    lookup = std::move(found);
    return {};
  }
}

Result<void> Plan::publish(const Completion& completion, const std::string& model) {
  // Unpins first, so that the answer can take the space of what was needed to compute it.
  state_->media.reset();
  state_->leader.reset();
  state_->lease.reset();
  if (!state_->answer_leader.has_value()) return {};
  AnswerLeader leader = *std::exchange(state_->answer_leader, std::nullopt);
  // Dropped, so that one of the waiters takes over: only exact answers are stored or handed on.
  if (completion.moved.value() > 0) return {};
  const Answer answer{
      .text = completion.text,
      .finish_reason = completion.ended ? "stop" : "length",
      .model = model,
      .prompt_tokens = completion.prefilled + completion.resumed_from,
      .output_tokens = TokenCount(static_cast<std::uint32_t>(completion.tokens.size()))};
  // max_tokens is part of the scope, so a truncated answer is the answer to this very request.
  const AnswerFacts facts{.cost = state_->reuse->clock().now() - state_->answer_began,
                          .ttl = state_->reuse->answer_options().ttl,
                          .tags = tags_of(*state_->identity, model),
                          .keep_partial = true};
  AFI_TRY_VOID(std::move(leader).publish(answer, facts));
  return {};
}

void Plan::fail(const Error& error) {
  if (state_->leader.has_value() && error.code != ErrorCode::kCancelled) state_->leader->fail();
  if (!state_->answer_leader.has_value()) return;
  AnswerLeader leader = *std::exchange(state_->answer_leader, std::nullopt);
  std::move(leader).fail(error);
}

// The prefix.

Result<void> Plan::add_prefix(const Sequence& prompt, const KvLayout& layout,
                              const std::stop_token& stop) {
  if (state_->reuse->prefix() == nullptr) return {};
  state_->reuse->note_space(state_->identity->root, state_->identity->space);
  state_->prompt = &prompt;
  state_->layout = &layout;
  if (state_->reuse->prefix_archive() != nullptr) {
    const RequestIdentity& identity = *state_->identity;
    AFI_TRY(state_->archived, ArchivedPrompt::of(identity.space, identity.root, layout, prompt));
    state_->reuse->prefix_archive()->note_request(*state_->archived);
  }
  const PrefillRequest request{.space = state_->identity->root,
                               .layout = &layout,
                               .prompt = &prompt,
                               .facts = state_->facts};
  AFI_TRY(PrefillLeader leader, state_->reuse->prefix()->wait_and_lead(request, stop));
  state_->leader = std::move(leader);
  AFI_TRY_VOID(state_->load_prefix(PrefixArchive::Look::kOnce, stop));
  return state_->lease_prefix(stop);
}

/// Promotes the part of the prompt that the tier has and memory lacks.
Result<void> Plan::State::load_prefix(PrefixArchive::Look look, const std::stop_token& stop) {
  if (!archived.has_value()) return {};
  if (reuse->prefix()->cache().is_blocked()) return load_aside(look, stop);
  PrefixMatch own(TokenCount(0), facts);  // matches nothing: it says whose insertion this is
  const bool loaded = reuse->prefix_archive()->promote(
      *archived, leader->match().matched(), resume(),
      [&](const KvSlice& kv, std::vector<LoadedKv> memory) -> Result<void> {
        AFI_TRY_VOID(reuse->prefix()->cache().insert(identity->root, *layout, *prompt, kv, &own,
                                                     std::move(memory)));
        return {};
      },
      stop, look);
  return loaded ? leader->look_again() : Result<void>();
}

/// In an emergency: into a cache of this request's own, which goes with it.
Result<void> Plan::State::load_aside(PrefixArchive::Look look, const std::stop_token& stop) {
  auto loaded = std::make_unique<Aside>();
  AFI_TRY(loaded->cache, PrefixCache::create({}, loaded->budget));
  const bool found = reuse->prefix_archive()->promote(
      *archived, TokenCount(0), resume(),
      [&](const KvSlice& kv, std::vector<LoadedKv> memory) -> Result<void> {
        AFI_TRY_VOID(loaded->cache->insert(identity->root, *layout, *prompt, kv, nullptr,
                                           std::move(memory)));
        return {};
      },
      stop, look);
  if (!found) return {};
  AFI_TRY(loaded->match, loaded->cache->match(identity->root, *prompt));
  if (loaded->match->resume() > resume()) aside = std::move(loaded);
  return {};
}

/// Of the processes that lack the same block one prefills it; the others wait, load it, and compute
/// what follows where their prompts part.
Result<void> Plan::State::lease_prefix(const std::stop_token& stop) {
  LeaseService* const leases = reuse->leases();
  if (!archived.has_value() || leases == nullptr) return {};
  const Duration began = reuse->clock().now();
  Duration longest_wait{0};
  const auto claim = [&]() -> LeaseService::Claim {
    const auto wanted =
        reuse->prefix_archive()->prefill_lease(*archived, resume(), leader->snapshots());
    if (!wanted.has_value()) return {};
    longest_wait = wanted->longest_wait;
    return leases->claim(wanted->turn, wanted->last);
  };
  const auto look = [&]() -> Result<LeaseLoop::Found> {
    const TokenCount before = resume();
    AFI_TRY_VOID(load_prefix(PrefixArchive::Look::kAgain, stop));
    return resume() == before ? LeaseLoop::Found::kNothing : LeaseLoop::Found::kSome;
  };
  const auto may_wait = [&] {
    return longest_wait <= Duration(0) || reuse->clock().now() - began <= longest_wait;
  };
  LeaseLoop loop;
  AFI_TRY_VOID(loop.run(*leases, claim, look, stop, may_wait));
  lease = loop.take_lease();
  return {};
}

TokenCount Plan::State::resume() const {
  if (aside != nullptr) return aside->match->resume();
  return leader.has_value() ? leader->match().resume() : TokenCount(0);
}

TokenCount Plan::resume() const { return state_->resume(); }

// KV at other positions.

void Plan::add_moved(const Engine& engine, bool use) {
  MovedMediaCache* const cache = state_->reuse->moved_media();
  if (cache == nullptr || !has_prefix() || engine.key_rotation() == nullptr) return;
  if (!cache->serves(kv_origin(engine.identity(), *state_->layout))) return;
  const std::vector<MediaSpan>& spans = state_->prompt->spans;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    state_->places.push_back(engine.place_of(*state_->prompt, spans[i].offset));
    const MediaSpan& span = spans[i];
    // A prefix may end inside an item, for example after what a bounded run computed of it.
    const TokenCount restored = resume() > span.offset ? resume() - span.offset : TokenCount(0);
    const TokenCount recomputed = std::max(cache->recomputed(), restored);
    const bool fits = span.modality == Modality::kImage && span.length > recomputed &&
                      span.end().value() < state_->prompt->tokens.size();
    if (!use || !fits) continue;
    auto item = cache->find(state_->identity->root, span);
    if (item == nullptr) continue;
    state_->moved.push_back(item->moved(i, recomputed));
    state_->moved_items.push_back(std::move(item));
  }
}

bool Plan::is_bounded() const { return !state_->moved.empty(); }

bool Plan::wants_exact(const Completion& done) {
  return done.moved.value() > 0 && state_->reuse->moved_media()->count(done);
}

void Plan::compare(const Completion& bounded, const Completion& exact) {
  state_->reuse->moved_media()->compare(bounded, exact);
}

void Plan::State::keep_media(const KvSlice& kv) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const MediaSpan& span = prompt->spans[i];
    if (span.modality != Modality::kImage || span.offset < kv.begin || span.end() > kv.end)
      continue;
    reuse->moved_media()->keep(identity->root, span, places[i], kv);
  }
}

KvUse Plan::kv_use(const KvOrigin& origin) {
  KvUse use;
  if (resume().value() > 0) {
    const Plan::State::Aside* const aside = state_->aside.get();
    state_->resume_from = aside == nullptr
                              ? state_->reuse->prefix()->cache().kv(state_->leader->match())
                              : aside->cache->kv(*aside->match);
    state_->resume_from.origin = origin;
    use.resume_from = &state_->resume_from;
  }
  const TokenCount length(static_cast<std::uint32_t>(state_->prompt->tokens.size()));
  state_->prefill_began = state_->reuse->clock().now();
  use.moved = state_->moved;
  if (is_bounded()) {
    state_->want_exact_rows(use);
    return use;
  }
  use.wanted = {.rows_from = state_->capture_from(resume()),
                .rows_to = length,
                .snapshots = state_->leader->snapshots()};
  std::erase_if(use.wanted.snapshots, [this](TokenCount at) { return at < resume(); });
  use.on_captured = [state = state_.get()](KvSlice kv) { state->commit_prefix(std::move(kv)); };
  if (state_->identity->request->hints.conversation == ContinuationHint::kEnds) return use;
  use.end_from = state_->capture_from(length);
  use.on_end = [state = state_.get()](KvSlice kv, std::span<const TokenId> fed_back) {
    state->commit_end(std::move(kv), fed_back);
  };
  return use;
}

/// Of a run with moved KV: rows before the first moved one are exact, and nothing else is captured.
void Plan::State::want_exact_rows(KvUse& use) {
  // Rows of a part of an item that cannot be split would never be resumed from.
  const MediaSpan& first = prompt->spans.at(moved.front().span);
  const TokenCount exact = first.splittable ? first_moved(*prompt, moved) : first.offset;
  use.wanted = {.rows_from = capture_from(resume()), .rows_to = exact, .snapshots = {}};
  if (exact > resume()) {
    use.on_captured = [this](KvSlice kv) { commit_prefix(std::move(kv)); };
    return;
  }
  use.wanted = {};
  leader->fail();  // nothing will be committed: who waits for this prefix goes on
  lease.reset();
}

TokenCount Plan::State::capture_from(TokenCount at) const {
  return archived.has_value() ? PrefixArchive::capture_from(at) : at;
}

void Plan::State::commit_prefix(KvSlice kv) {
  kv.cost = reuse->clock().now() - prefill_began;
  // KV that does not fit is not cached; the request is served all the same.
  static_cast<void>(leader->commit(kv));
  keep_media(kv);
  if (archived.has_value()) reuse->prefix_archive()->keep(*archived, kv);
  lease.reset();  // only after the KV is on its way to the tier
}

/// The next turn's prompt repeats this prompt and this answer, so it resumes after them. If it
/// renders the answer otherwise, it resumes where the two part, or before.
void Plan::State::commit_end(KvSlice kv, std::span<const TokenId> fed_back) {
  kv.cost = reuse->clock().now() - prefill_began;
  if (!keeps_snapshots(*layout)) kv.snapshots.clear();
  Sequence sequence = *prompt;
  sequence.tokens.insert(sequence.tokens.end(), fed_back.begin(), fed_back.end());
  PrefixMatch own(TokenCount(0), facts);  // matches nothing: it says whose insertion this is
  static_cast<void>(reuse->prefix()->cache().insert(identity->root, *layout, sequence, kv, &own));
  if (!archived.has_value()) return;
  const auto longer = ArchivedPrompt::of(identity->space, identity->root, *layout, sequence);
  if (longer.has_value()) reuse->prefix_archive()->keep(*longer, kv);
}

Result<Prefetched> Reuse::prefetch(const PrefetchTarget& target, const KvLayout* layout,
                                   const std::stop_token& stop) {
  Prefetched loaded;
  if (!has_tier()) return loaded;
  if (pressure() != nullptr && pressure()->stats().mode > PressureMode::kNormal) return loaded;
  const Request nobody;
  const RequestIdentity identity{.request = &nobody,
                                 .media = {},
                                 .prints = target.prints,
                                 .space = target.space,
                                 .root = target.root,
                                 .question = std::nullopt};
  Plan plan(std::make_unique<Plan::State>(*this, identity, RequestFacts{.now = clock().now()}));
  if (layout != nullptr) {
    AFI_TRY(loaded.kv_tokens, plan.state_->prefetch_prefix(target.prompt, *layout, stop));
  }
  plan.add_media(target.prompt);
  for (const MediaSource source : plan.media().sources()) {
    loaded.encoder_outputs += source == MediaSource::kLoaded ? 1 : 0;
  }
  return loaded;
}

/// Returns how many more positions the prompt can resume after. Takes no lease of other processes:
/// nothing will be prefilled.
Result<std::uint64_t> Plan::State::prefetch_prefix(const Sequence& sequence,
                                                   const KvLayout& its_layout,
                                                   const std::stop_token& stop) {
  if (reuse->prefix() == nullptr || reuse->prefix_archive() == nullptr) return 0U;
  reuse->note_space(identity->root, identity->space);
  prompt = &sequence;
  layout = &its_layout;
  AFI_TRY(archived, ArchivedPrompt::of(identity->space, identity->root, its_layout, sequence));
  const PrefillRequest request{
      .space = identity->root, .layout = layout, .prompt = prompt, .facts = facts};
  AFI_TRY(PrefillLeader mine, reuse->prefix()->wait_and_lead(request, stop));
  leader = std::move(mine);
  const TokenCount before = resume();
  AFI_TRY_VOID(load_prefix(PrefixArchive::Look::kOnce, stop));
  return (resume() - before).value();
}

void Plan::restart() {
  state_->leader->start_over();
  state_->aside.reset();
  state_->moved.clear();
  state_->moved_items.clear();
  state_->media.reset();
}

}  // namespace afterimage
