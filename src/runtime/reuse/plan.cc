// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/reuse/plan.h"

#include <utility>

#include "caches/prefix/resume_point.h"
#include "runtime/reuse/reuse.h"

namespace afterimage {

// The answer.

Result<void> Plan::add_answer(const std::stop_token& stop) {
  if (reuse_->answers() == nullptr || !identity_->question.has_value()) return {};
  Question question = *identity_->question;
  const LookupRules& rules = reuse_->answer_options().rules;
  const auto lead = [&](AnswerLeader leader) {
    lookup_.steps = leader.looked();
    answer_leader_ = std::move(leader);
    answer_began_ = reuse_->clock().now();
  };
  for (;;) {
    AnswerOnce::Claim claim = reuse_->answers()->claim(question, rules);
    if (auto* found = std::get_if<AnswerLookup>(&claim)) {
      lookup_ = std::move(*found);
      return {};
    }
    if (auto* leader = std::get_if<AnswerLeader>(&claim)) {
      lead(std::move(*leader));
      return {};
    }
    AFI_TRY(auto waited, std::get<AnswerWaiter>(std::move(claim)).wait(stop));
    if (auto* leader = std::get_if<AnswerLeader>(&waited)) {
      lead(std::move(*leader));
      return {};
    }
    // Without an answer, another question's leader took over, and its answer is not for this one.
    AnswerLookup& found = std::get<AnswerLookup>(waited);
    if (!found.answer.has_value()) continue;
    lookup_ = std::move(found);
    return {};
  }
}

Result<void> Plan::publish(const Completion& completion, const std::string& model) {
  // Unpins first, so that the answer can take the space of what was needed to compute it.
  media_.reset();
  leader_.reset();
  lease_.reset();
  if (!answer_leader_.has_value()) return {};
  AnswerLeader leader = *std::exchange(answer_leader_, std::nullopt);
  const Answer answer{
      .text = completion.text,
      .finish_reason = completion.ended ? "stop" : "length",
      .model = model,
      .prompt_tokens = completion.prefilled + completion.resumed_from,
      .output_tokens = TokenCount(static_cast<std::uint32_t>(completion.tokens.size()))};
  // A truncated answer is this request's alone: dropping the lead lets a waiter ask for itself.
  if (!is_whole(answer)) return {};
  const AnswerFacts facts{.cost = reuse_->clock().now() - answer_began_,
                          .ttl = reuse_->answer_options().ttl};
  AFI_TRY_VOID(std::move(leader).publish(answer, facts));
  return {};
}

void Plan::fail(const Error& error) {
  if (leader_.has_value() && error.code != ErrorCode::kCancelled) leader_->fail();
  if (!answer_leader_.has_value()) return;
  AnswerLeader leader = *std::exchange(answer_leader_, std::nullopt);
  std::move(leader).fail(error);
}

// The prefix.

Result<void> Plan::add_prefix(const Sequence& prompt, const KvLayout& layout,
                              const std::stop_token& stop) {
  if (reuse_->prefix() == nullptr) return {};
  prompt_ = &prompt;
  layout_ = &layout;
  if (reuse_->prefix_archive() != nullptr) {
    AFI_TRY(archived_, ArchivedPrompt::of(identity_->space, identity_->root, layout, prompt));
  }
  const PrefillRequest request{
      .space = identity_->root, .layout = layout_, .prompt = prompt_, .facts = facts_};
  AFI_TRY(PrefillLeader leader, reuse_->prefix()->wait_and_lead(request, stop));
  leader_ = std::move(leader);
  AFI_TRY_VOID(load_prefix(PrefixArchive::Look::kOnce, stop));
  return lease_prefix(stop);
}

/// Promotes the part of the prompt that the tier has and memory lacks.
Result<void> Plan::load_prefix(PrefixArchive::Look look, const std::stop_token& stop) {
  if (!archived_.has_value()) return {};
  PrefixMatch own(TokenCount(0), facts_);  // matches nothing: it says whose insertion this is
  const bool loaded = reuse_->prefix_archive()->promote(
      *archived_, leader_->match().matched(), resume(),
      [&](const KvSlice& kv) -> Result<void> {
        AFI_TRY_VOID(reuse_->prefix()->insert(identity_->root, *layout_, *prompt_, kv, &own));
        return {};
      },
      stop, look);
  return loaded ? leader_->look_again() : Result<void>();
}

/// Of the processes that lack the same block one prefills it; the others wait, load it, and compute
/// what follows where their prompts part.
Result<void> Plan::lease_prefix(const std::stop_token& stop) {
  LeaseService* const leases = reuse_->leases();
  if (!archived_.has_value() || leases == nullptr) return {};
  const Duration began = reuse_->clock().now();
  Duration longest_wait{0};
  const auto claim = [&]() -> LeaseService::Claim {
    const auto wanted = reuse_->prefix_archive()->duty(*archived_, resume(), leader_->snapshots());
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
    return longest_wait <= Duration(0) || reuse_->clock().now() - began <= longest_wait;
  };
  LeaseLoop loop;
  AFI_TRY_VOID(loop.run(*leases, claim, look, stop, may_wait));
  lease_ = loop.take_lease();
  return {};
}

TokenCount Plan::resume() const {
  return leader_.has_value() ? leader_->match().resume() : TokenCount(0);
}

KvUse Plan::kv_use(const KvOrigin& origin) {
  KvUse use;
  if (resume().value() > 0) {
    resume_from_ = reuse_->prefix()->kv(leader_->match());
    resume_from_.origin = origin;
    use.resume_from = &resume_from_;
  }
  use.wanted = {
      .rows_from = archived_.has_value() ? PrefixArchive::capture_from(resume()) : resume(),
      .rows_to = TokenCount(static_cast<std::uint32_t>(prompt_->tokens.size())),
      .snapshots = leader_->snapshots()};
  prefill_began_ = reuse_->clock().now();
  use.on_captured = [this](KvSlice kv) { commit_prefix(std::move(kv)); };
  return use;
}

void Plan::commit_prefix(KvSlice kv) {
  kv.cost = reuse_->clock().now() - prefill_began_;
  // KV that does not fit is not cached; the request is served all the same.
  static_cast<void>(leader_->commit(kv));
  if (archived_.has_value()) reuse_->prefix_archive()->keep(*archived_, kv);
  lease_.reset();  // only after the KV is on its way to the tier
}

void Plan::restart() {
  leader_->start_over();
  media_.reset();
}

// The media.

void Plan::add_media(const Sequence& prompt) {
  const std::size_t covered = prompt.spans.size() - media_to_encode(prompt.spans, resume()).size();
  media_ = reuse_->plan_media(identity_->prints, identity_->request->agent, covered, facts_);
}

}  // namespace afterimage
