// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Whether the answer to a request is stored, and may be served.
#include <algorithm>
#include <utility>

#include "gateway/openai/record_call_ids.h"
#include "gateway/openai/usage_scan.h"
#include "gateway/proxy/gateway_request.h"
#include "gateway/proxy/record_source.h"

namespace afterimage {
namespace {

constexpr const char* kSimilarServed = "a similar question was answered before";

/// The proposal that was judged, or else the one that came closest to it.
const Proposal& shown_of(const SimilarityLookup& found) {
  if (found.judged.has_value()) return found.proposals[*found.judged];
  const auto passed = std::ranges::find_if(
      found.proposals, [](const Proposal& proposal) { return proposal.vetoes.empty(); });
  return passed == found.proposals.end() ? found.proposals.front() : *passed;
}

SimilarStep step_of(const SimilarityLookup& found) {
  SimilarStep step{.verdict = found.verdict,
                   .candidate = {},
                   .verification = std::string(to_string(found.verification)),
                   .verifier_error = found.verifier_error,
                   .age = found.age,
                   .took = found.took};
  if (found.proposals.empty()) return step;
  const Proposal& closest = shown_of(found);
  step.score = closest.score;
  step.candidate = beginning_of(closest.candidate);
  step.similarity = closest.similarity[closest.layer];
  for (const Veto veto : closest.vetoes) step.vetoes.emplace_back(to_string(veto));
  if (found.judgement.has_value()) step.right_at_least = found.judgement->right_at_least;
  return step;
}

}  // namespace

GatewayRequest::Next GatewayRequest::on_looking_up() {
  make_batch_whole();
  if (!terms_.has_value()) {
    if (const auto stopped = identify_request()) return stop(*stopped);
  }
  // Whether an answer is stored is what is hidden.
  if (hides_hits() && asked_.directives.only_if_cached) return nothing_to_serve();
  completed_before_ = gateway_.responses().completed();
  if (terms_->draws) return look_up_draw();
  if (asked_.directives.no_cache) {
    heed_time(*terms_, asked_);
    decide(Outcome::kRefresh, Reason::kNoCache);
    return RequestStage::kJoining;
  }
  AnswerCache& cache = *gateway_.parts().reuse.answer_cache();
  AnswerArchive* const archive = gateway_.parts().archive;
  const auto before = archive == nullptr ? AnswerArchive::ReadLease() : archive->read_lease();
  LookupRules sharing = terms_->rules;
  sharing.share = true;
  const auto may_loosen = [this] {
    heed_time(*terms_, asked_);
    return terms_->rules.serve > MatchLevel::kExact;
  };
  AnswerLookup found = cache.find(*asked_.question, sharing, may_loosen);
  decision_.match_levels = shown(found.steps);
  if (!found.answer.has_value()) {
    if (archive == nullptr) return look_up_failed();
    return looks_up_with_lease() ? nothing_to_serve() : RequestStage::kLookingUpArchive;
  }
  const bool may_serve = archive == nullptr || archive->may_serve(before);
  if (may_serve && take_found(found)) return RequestStage::kResponding;
  heed_time(*terms_, asked_);
  cache.retract_hit(found);
  missed(may_serve ? MissReason::kIncomplete : MissReason::kUnconfirmed);
  return look_up_failed();
}

DrawClaim GatewayRequest::claim_draw() {
  const AnswerSettings& settings = config_->settings.answers;
  DrawClaim claimed =
      gateway_.draws().claim(sampled_id(asked_, settings), requester_of(asked_, request_),
                             draw_rules(asked_, config_->settings), gateway_.parts().clock.now());
  for (const Draw& gone : claimed.retired) {
    Question question = question_of(gone, *asked_.question);
    gateway_.parts().reuse.answer_cache()->erase(question);
  }
  return claimed;
}

/// A claim stays this request's as long as its draw is there: after a restart another one would be
/// chosen by what has become of the first.
GatewayRequest::Next GatewayRequest::look_up_draw() {
  Draws& draws = gateway_.draws();
  AnswerArchive* const archive = gateway_.parts().archive;
  if (archive != nullptr && !archive->may_serve(archive->read_lease())) {
    draw_.reset();
    missed(MissReason::kUnconfirmed);
    return ask_for_draw({});
  }
  DrawClaim claim;
  while (true) {
    const bool is_claimed = draw_.has_value() && draws.holds(*draw_);
    if (!is_claimed) {
      claim = claim_draw();
      draw_ = claim.draw;
    }
    if (!draw_.has_value() || claim.is_new) return ask_for_draw(claim);
    if (serve_draw()) return RequestStage::kResponding;
    // Its answer was evicted, or does not hold all that this request asks for.
    if (!claim.is_stored) return ask_for_draw(claim);
    draws.drop(*draw_);
  }
}

GatewayRequest::Next GatewayRequest::serve_draw() {
  Question question = stored_question();
  AnswerCache& cache = *gateway_.parts().reuse.answer_cache();
  AnswerArchive* const archive = gateway_.parts().archive;
  const auto before = archive == nullptr ? AnswerArchive::ReadLease() : archive->read_lease();
  LookupRules sharing = terms_->rules;
  sharing.share = true;
  AnswerLookup found = cache.find(question, sharing);
  decision_.match_levels = shown(found.steps);
  if (!found.answer.has_value()) return std::nullopt;
  const bool may_serve = archive == nullptr || archive->may_serve(before);
  if (may_serve && take_found(found)) return RequestStage::kResponding;
  cache.retract_hit(found);
  return std::nullopt;
}

GatewayRequest::Next GatewayRequest::ask_for_draw(const DrawClaim& claim) {
  if (asked_.directives.no_cache) {
    decide(Outcome::kRefresh, Reason::kNoCache);
    return RequestStage::kJoining;
  }
  const bool had_others = claim.had_others || decision_.miss == MissReason::kAllDrawsHad;
  if (!had_others) return nothing_to_serve();
  decision_.miss = MissReason::kAllDrawsHad;
  decision_.why = afterimage::explain(Reason::kAllDrawsHad);
  const Next next = nothing_to_serve();
  if (decision_.outcome == Outcome::kMiss) decision_.reason = Reason::kAllDrawsHad;
  return next;
}

/// On threads that may wait for a disk or for servers.
GatewayRequest::Next GatewayRequest::on_looking_up_archive() {
  looked_up_archive_ = true;
  AnswerArchive* const archive = gateway_.parts().archive;
  const auto look_up = [this, archive] {
    auto found = archive->restore(*asked_.question, terms_->rules, quota_of(asked_.tenant));
    if (!found.has_value()) return resume(*look_up_failed());
    const MatchStep step = shown(found->steps.back());
    if (!take_found(*found)) {
      missed(MissReason::kIncomplete);
      return resume(*look_up_failed());
    }
    decision_.match_levels.push_back(step);
    resume(RequestStage::kResponding);
  };
  const bool posted = gateway_.disk_workers().post(
      [self = shared_from_this(), look_up] { self->on_worker(look_up); });
  if (posted) return std::nullopt;
  is_batch_asked_whole_ = true;  // its inputs would be looked up on a thread that may not wait
  return look_up_failed();
}

GatewayRequest::Next GatewayRequest::look_up_failed() {
  return may_use_similar() ? Next(RequestStage::kLookingUpSimilar) : nothing_to_serve();
}

/// Once: after a restart the evidence is the same.
bool GatewayRequest::may_use_similar() const {
  return terms_->similarity && gateway_.parts().similar != nullptr && !similar_.has_value();
}

GatewayRequest::Next GatewayRequest::on_looking_up_similar() {
  if (!gateway_.parts().similar->waits()) return look_up_similar();
  const bool posted = gateway_.disk_workers().post([self = shared_from_this()] {
    self->on_worker([&] { self->resume(*self->look_up_similar()); });
  });
  if (posted) return std::nullopt;
  return nothing_to_serve();
}

GatewayRequest::Next GatewayRequest::look_up_similar() {
  AnswerArchive* const archive = gateway_.parts().archive;
  const auto before = archive == nullptr ? AnswerArchive::ReadLease() : archive->read_lease();
  similar_ = gateway_.parts().similar->find(*asked_.question, terms_->rules);
  if (!similar_.has_value()) {
    terms_->similarity = false;
    return nothing_to_serve();
  }
  const SimilarityLookup& found = similar_->found;
  decision_.similar = step_of(found);
  const bool may_serve = archive == nullptr || archive->may_serve(before);
  if (may_serve && take_similar(found)) return RequestStage::kResponding;
  return nothing_to_serve();
}

bool GatewayRequest::take_similar(const SimilarityLookup& found) {
  if (!found.answer.has_value()) return false;
  auto record = ApiRecord::parse(found.answer->record);
  if (!record.has_value() || !fits(*asked_.api, *record, MatchLevel::kNear)) return false;
  AnswerLookup lookup{
      .answer = found.answer, .steps = {}, .saved = found.saved, .by_similarity = true};
  lookup.steps.push_back({.level = MatchLevel::kNear,
                          .verdict = Verdict::kServed,
                          .candidate = found.proposals[*found.judged].candidate,
                          .age = found.age});
  found_ = Found{.lookup = std::move(lookup), .record = *std::move(record)};
  return true;
}

GatewayRequest::Next GatewayRequest::nothing_to_serve() {
  const bool has_inputs = batch_ == nullptr && !asked_.inputs.empty() && !is_batch_asked_whole_;
  if (has_inputs && !hides_hits()) return look_up_inputs();
  if (asked_.directives.only_if_cached) {
    decision_.reason = Reason::kOnlyIfCached;
    return refuse(
        {504, std::string(afterimage::explain(decision_.reason)), "cache_miss", decision_.reason});
  }
  decision_.outcome = Outcome::kMiss;
  decision_.reason = Reason::kMissed;
  if (decision_.why.empty()) explain_miss();
  return RequestStage::kJoining;
}

void GatewayRequest::missed(MissReason reason) {
  decision_.miss = reason;
  decision_.why = afterimage::explain(reason);
}

void GatewayRequest::explain_miss() {
  auto [reason, why] =
      afterimage::explain_miss(decision_.match_levels, gateway_.history().find(*asked_.question),
                               gateway_.parts().clock.now());
  decision_.miss = reason;
  decision_.why = std::move(why);
  if (!terms_->only_exact.empty()) {
    decision_.why += "; only exact matches may serve it: " + std::string(terms_->only_exact);
  }
}

std::optional<GatewayRequest::Stop> GatewayRequest::identify_request() {
  const ApiRequest& api = *asked_.api;
  const Backend& backend = gateway_.parts().backend;
  for (const ApiMedia& media : api.media) {
    decision_.media.push_back({.modality = media.modality,
                               .digest = media.digest->hex(),
                               .bytes = Bytes(media.bytes->size())});
  }
  // Servers of one model take rerank requests that name none.
  const bool is_unnamed = api.model.empty() && is_verbatim(api.operation);
  auto space = gateway_.spaces().of(backend.identity(is_unnamed ? backend.name() : api.model),
                                    asked_.tenant.cache_namespace, asked_.tenant.owner);
  if (!space.has_value()) return bypass(Reason::kUnidentified, space.error().message);
  asked_.space = *std::move(space);
  asked_.question =
      question_of(api, request_, *asked_.space, backend, gateway_.parts().ids.clock().now());
  decision_.scope = asked_.question->scope().key.hex();
  if (gateway_.parts().reuse.answer_cache() == nullptr) return bypass(Reason::kDisabled);
  const auto terms = serving_terms(asked_, config_->settings, backend.samples_by_default());
  if (!terms.has_value()) return bypass(terms.error().reason, terms.error().why);
  terms_ = *terms;
  if (splits_batch()) {
    const WallTime now = gateway_.parts().ids.clock().now();
    asked_.inputs = input_questions(api, request_, *asked_.space, backend, now);
    asked_.frame = frame_question(api, request_, *asked_.space, backend, now);
  }
  return std::nullopt;
}

bool GatewayRequest::take_found(AnswerLookup& found) {
  auto record = found.shared == nullptr
                    ? ApiRecord::parse(found.answer->record)
                    : gateway_.records().parse(
                          std::shared_ptr<const std::string>(found.shared, &found.shared->record));
  if (!record.has_value() || !fits(*asked_.api, *record, found.steps.back().level)) return false;
  found_ = Found{.lookup = std::move(found),
                 .record = with_fresh_call_ids(*std::move(record), asked_.api->call_ids,
                                               [this] { return gateway_.parts().ids.suffix(); })};
  return true;
}

GatewayRequest::Next GatewayRequest::respond_from_cache() {
  const auto& [lookup, record] = *found_;
  const MatchStep& step = lookup.steps.back();
  const bool elsewhere = answered_elsewhere_;
  decide(elsewhere ? Outcome::kJoined : Outcome::kHit,
         elsewhere ? Reason::kAnsweredElsewhere : Reason::kServed);
  decision_.level = lookup.by_similarity ? "similarity" : to_string(step.level);
  if (lookup.by_similarity && !elsewhere) decision_.why = kSimilarServed;
  const Duration delay = hides_hits() ? hit_delay(lookup.saved) : Duration(0);
  const Duration took = gateway_.parts().clock.now() - arrived_ + delay;
  decision_.saved = std::max(Duration(0), lookup.saved - took);
  decision_.saved_prompt_tokens = lookup.answer->prompt_tokens.value();
  decision_.saved_output_tokens = lookup.answer->output_tokens.value();
  usage().charge_saved(decision_.saved_prompt_tokens, decision_.saved_output_tokens);
  decision_.first_byte = took;
  HttpHeaders headers;
  headers.reserve(8);
  std::string_view type = record.content_type();
  if (type.empty())
    type = asked_.api->stream ? "text/event-stream; charset=utf-8" : "application/json";
  headers.add("Content-Type", std::string(type));
  if (type.starts_with("text/event-stream")) headers.add("Cache-Control", "no-cache");
  know_cached_prompt();
  if (batch_ != nullptr) {
    const std::string count = std::to_string(batch_->vectors.size());
    headers.add(std::string(kCachedInputs), count + " of " + count);
  }
  const ResponseStamp stamp = gateway_.parts().ids.answer(*asked_.operation);
  HttpBody body = cached_body(record, stamp);
  if (step.level != MatchLevel::kExact) verify_later(lookup, record);
  const CacheReport report{
      .outcome = elsewhere ? CacheOutcome::kJoined : CacheOutcome::kHit,
      .detail = elsewhere ? std::string(to_string(decision_.reason)) : decision_.level,
      .stored = false,
      .age = step.age,
      .ttl = lookup.left};
  if (delay <= Duration(0)) {
    reply(200, std::move(headers), std::move(body), report);
    return RequestStage::kDone;
  }
  IoThreads& threads = gateway_.parts().threads;
  threads.post_after(threads.here_or_next(), delay,
                     [self = shared_from_this(), headers = std::move(headers),
                      body = std::move(body), report]() mutable {
                       self->reply(200, std::move(headers), std::move(body), report);
                       self->resume(RequestStage::kDone);
                     });
  return std::nullopt;
}

/// For the beginning of a stream. Where hits are hidden, only if a miss says it, too.
void GatewayRequest::know_cached_prompt() {
  if (translation_ == nullptr || !translation_->streams()) return;
  if (hides_hits() && gateway_.parts().backend.takes_anything()) return;
  UsageScan usage;
  usage.feed(found_->record.serialize());
  if (!usage.prompt_tokens().has_value()) return;
  translation_->know_prompt(
      {.prompt = *usage.prompt_tokens(), .cached = usage.cached_tokens().value_or(0)});
}

/// The bytes, or, of a large answer, what makes them while the client reads. An answer that is translated
/// as a whole is needed as a whole.
HttpBody GatewayRequest::cached_body(const ApiRecord& record, const ResponseStamp& stamp) const {
  ApiRecord shared = found_->lookup.shared != nullptr ? record : gateway_.records().share(record);
  const bool as_events = asked_.api->stream && !is_verbatim(*asked_.operation);
  RecordText text =
      as_events ? shared.events_text(stamp, asked_.api->include_usage) : shared.body_text(stamp);
  if (text.size() <= RecordSource::kPiece || (translation_ != nullptr && !asked_.api->stream)) {
    return text.next(text.size());
  }
  return std::make_shared<RecordSource>(std::move(shared), std::move(text));
}

Duration GatewayRequest::hit_delay(Duration saved) const {
  const Duration floor = std::max(saved, config_->settings.answers.least_hit_time);
  return std::max(Duration(0), arrived_ + floor - gateway_.parts().clock.now());
}

Decision GatewayRequest::explain() {
  if (const auto stopped = explain_request(); stopped.has_value()) {
    if (stopped->refusal.has_value()) refuse(*stopped->refusal);
  } else if (asked_.directives.no_cache) {
    decide(Outcome::kRefresh, Reason::kNoCache);
  } else {
    explain_lookup();
  }
  const bool asks = decision_.outcome == Outcome::kMiss || decision_.outcome == Outcome::kBypass ||
                    decision_.outcome == Outcome::kRefresh;
  if (asks) {
    decision_.route = gateway_.parts().backend.route(backend_request());
    decision_.prompt = prompt_.report();
  }
  note_ignored(nullptr);
  return decision_;
}

/// The stages before the look-up. Media by address are not fetched.
std::optional<GatewayRequest::Stop> GatewayRequest::explain_request() {
  if (const auto refusal = admit(Counting::kDoesNotCount)) return Stop{refusal};
  if (const auto stopped = read()) return stopped;
  if (!has_all_media()) return bypass(Reason::kMediaByAddress);
  return identify_request();
}

void GatewayRequest::explain_draw() {
  const AnswerSettings& settings = config_->settings.answers;
  const DrawClaim claim =
      gateway_.draws().peek(sampled_id(asked_, settings), requester_of(asked_, request_),
                            draw_rules(asked_, config_->settings), gateway_.parts().clock.now());
  draw_ = claim.draw;
  decide(Outcome::kMiss, claim.had_others ? Reason::kAllDrawsHad : Reason::kMissed);
  if (claim.draw.has_value()) {
    decision_.draw = claim.draw->number;
    if (!claim.is_stored) return decide(Outcome::kJoined, Reason::kJoined);
    Question question = stored_question();
    const AnswerLookup found = gateway_.parts().reuse.answer_cache()->peek(question, terms_->rules);
    decision_.match_levels = shown(found.steps);
    decision_.saved = found.saved;
    if (found.answer.has_value()) {
      decide(Outcome::kHit, Reason::kServed);
      decision_.level = to_string(MatchLevel::kExact);
    }
    return;
  }
  if (!claim.had_others) return explain_miss();
  decision_.miss = MissReason::kAllDrawsHad;
}

void GatewayRequest::explain_lookup() {
  if (terms_->draws) return explain_draw();
  heed_time(*terms_, asked_);
  const AnswerLookup found =
      gateway_.parts().reuse.answer_cache()->peek(*asked_.question, terms_->rules);
  decision_.match_levels = shown(found.steps);
  AnswerArchive* const archive = gateway_.parts().archive;
  const bool known = archive == nullptr || archive->stats().may_serve;
  const bool hit = known && found.answer.has_value();
  decide(hit ? Outcome::kHit : Outcome::kMiss, hit ? Reason::kServed : Reason::kMissed);
  if (hit) {
    decision_.level = to_string(found.steps.back().level);
  } else if (found.answer.has_value()) {
    missed(MissReason::kUnconfirmed);
  } else {
    explain_miss();
    explain_similar();
  }
  decision_.saved = found.saved;
  if (known && !hit && !asked_.inputs.empty()) explain_inputs();
}

void GatewayRequest::explain_similar() {
  if (!may_use_similar()) return;
  const auto lookup = gateway_.parts().similar->peek(*asked_.question, terms_->rules);
  if (!lookup.has_value()) return;
  decision_.similar = step_of(lookup->found);
  if (lookup->found.verdict != Verdict::kServed) return;
  decide(Outcome::kHit, Reason::kServed);
  decision_.level = "similarity";
  decision_.why = kSimilarServed;
}

}  // namespace afterimage
