// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What a request asks, and whether its answer is stored.
#include <algorithm>
#include <utility>

#include "gateway/proxy/gateway_request.h"
#include "gateway/proxy/record_source.h"

namespace afterimage {
namespace {

constexpr const char* kNotKnown =
    "the servers did not say whether another gateway has invalidated the answer";

std::string lowered(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return lower;
}

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
  const Proposal& shown = shown_of(found);
  step.score = shown.score;
  step.candidate = shown.candidate;
  step.similarity = shown.similarity[shown.layer];
  for (const Veto veto : shown.vetoes) step.vetoes.emplace_back(to_string(veto));
  if (found.judgement.has_value()) step.right_at_least = found.judgement->right_at_least;
  return step;
}

bool is_of_the_api(std::string_view header) {
  static constexpr std::string_view kPrefix = "openai-";
  return same_header(header.substr(0, kPrefix.size()), kPrefix);
}

}  // namespace

GatewayRequest::Next GatewayRequest::on_looking_up() {
  if (!question_.has_value()) {
    if (!identify_request()) return forward();
    decide_eligibility();
  }
  if (!may_reuse_) return forward();
  // Whether an answer is stored is what is hidden.
  if (hides_hits() && directives_.only_if_cached) return nothing_to_serve();
  completed_before_ = gateway_.responses().completed();
  if (directives_.no_cache) {
    note_refresh();
    return RequestStage::kJoining;
  }
  AnswerCache& cache = *gateway_.parts().reuse.answer_cache();
  AnswerArchive* const archive = gateway_.parts().archive;
  const auto before = archive == nullptr ? AnswerArchive::ReadLease() : archive->read_lease();
  LookupRules sharing = rules_;
  sharing.share = true;
  AnswerLookup found = cache.find(*question_, sharing);
  decision_.ladder = found.steps;
  if (!found.answer.has_value()) {
    return archive == nullptr ? look_up_failed() : RequestStage::kLookingUpArchive;
  }
  const bool may_serve = archive == nullptr || archive->may_serve(before);
  if (may_serve && take_found(found)) return RequestStage::kResponding;
  cache.retract_hit(found);
  decision_.why = may_serve ? "the stored answer does not hold all that was asked for" : kNotKnown;
  return look_up_failed();
}

/// On threads that may wait for a disk or for servers.
GatewayRequest::Next GatewayRequest::on_looking_up_archive() {
  AnswerArchive* const archive = gateway_.parts().archive;
  const auto look_up = [this, archive] {
    auto found = archive->restore(*question_, rules_, quota());
    if (!found.has_value()) return resume(*look_up_failed());
    const MatchStep step = found->steps.back();
    if (!take_found(*found)) return resume(*look_up_failed());
    decision_.ladder.push_back(step);
    resume(RequestStage::kResponding);
  };
  const bool posted = gateway_.disk_workers().post(
      [self = shared_from_this(), look_up] { self->on_worker(look_up); });
  if (posted) return std::nullopt;
  return look_up_failed();
}

GatewayRequest::Next GatewayRequest::look_up_failed() {
  return may_use_similar() ? Next(RequestStage::kLookingUpSimilar) : nothing_to_serve();
}

/// Once: after a restart the evidence is the same.
bool GatewayRequest::may_use_similar() const {
  return similarity_allowed_ && gateway_.parts().similar != nullptr && !similar_.has_value();
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
  similar_ = gateway_.parts().similar->find(*question_, rules_);
  if (!similar_.has_value()) {
    similarity_allowed_ = false;
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
  if (!record.has_value() || !fits(*record, MatchLevel::kNear)) return false;
  AnswerLookup lookup{
      .answer = found.answer, .steps = {}, .saved = found.saved, .by_similarity = true};
  lookup.steps.push_back({.rung = MatchLevel::kNear,
                          .verdict = Verdict::kServed,
                          .candidate = found.proposals[*found.judged].candidate,
                          .age = found.age});
  found_ = Found{.lookup = std::move(lookup), .record = *std::move(record)};
  return true;
}

GatewayRequest::Next GatewayRequest::nothing_to_serve() {
  if (directives_.only_if_cached) {
    decision_.reason = "only-if-cached";
    return refuse({504, "no stored answer may be served to this", "cache_miss", "only_if_cached"});
  }
  decision_.outcome = Outcome::kMiss;
  decision_.reason = "uri-miss";
  if (decision_.why.empty()) explain_miss();
  return RequestStage::kJoining;
}

void GatewayRequest::explain_miss() {
  auto [reason, why] = afterimage::explain_miss(
      decision_.ladder, gateway_.history().find(*question_), gateway_.parts().clock.now());
  decision_.miss = reason;
  decision_.why = std::move(why);
}

bool GatewayRequest::identify_request() {
  std::vector<ContentDigest> contents;
  decision_.media.clear();
  for (const ApiMedia& media : api_->media) {
    contents.push_back(*media.digest);
    decision_.media.push_back({.modality = media.modality,
                               .digest = contents.back().hex(),
                               .bytes = Bytes(media.bytes->size())});
  }
  auto space = gateway_.spaces().of(gateway_.parts().backend.identity(api_->model),
                                    tenant_.cache_namespace, tenant_.owner);
  if (!space.has_value()) {
    bypass("unidentified", space.error().message);
    return false;
  }
  space_ = *std::move(space);
  Scope scope = scope_of(*api_, contents, space_->inputs);
  scope.other["afterimage.operation"] = to_string(api_->operation);
  scope.other["afterimage.model"] = api_->model;
  // The limit that may truncate the answer is part of the request's identity.
  const auto limit = gateway_.parts().backend.default_max_tokens();
  if (!api_->max_tokens.has_value() && limit.has_value()) {
    scope.other["afterimage.max_tokens"] = std::to_string(*limit);
  }
  // Parameters of the query change the answer: Azure's api-version, for one.
  const std::size_t query = request_.target.find('?');
  if (query != std::string::npos) scope.other["afterimage.query"] = request_.target.substr(query);
  // So do headers such as OpenAI-Beta and OpenAI-Organization.
  for (const auto& [name, value] : request_.headers) {
    if (is_of_the_api(name)) scope.other["afterimage.header." + lowered(name)] += value + "\n";
  }
  question_.emplace(identify(scope, space_->name_space, space_->answers), api_->question);
  decision_.scope = question_->scope().key.hex();
  return true;
}

void GatewayRequest::decide_eligibility() {
  const AnswerSettings& settings = config_->settings.answers;
  const auto none = [&](std::string_view reason, std::string why) {
    bypass(reason, std::move(why));
  };
  if (!settings.enabled || gateway_.parts().reuse.answer_cache() == nullptr) {
    return none("disabled", "answers.enabled is false");
  }
  if (directives_.off) return none("off", "the request switched the cache off");
  const bool is_verbose = config_->settings.engine.verbose;
  if (api_->engine != nullptr && (is_verbose || api_->engine->details.any())) {
    return none("details", is_verbose ? "engine.verbose is true"
                                      : "the request asks how its answer is computed");
  }
  SamplingFacts facts = api_->sampling;
  const bool unstated = !facts.temperature.has_value() && !facts.seeded &&
                        api_->operation != ApiOperation::kEmbedding;
  const bool assumes_greedy =
      settings.assume_greedy_when_unset && !gateway_.parts().backend.samples_by_default();
  if (api_->operation == ApiOperation::kEmbedding || (unstated && assumes_greedy)) {
    facts.temperature = 0;
  }
  if (unstated && !assumes_greedy) {
    return none("no-temperature",
                "the request names no temperature, and the server's own is seldom 0: send "
                "temperature 0, or set answers.assume_greedy_when_unset");
  }
  const Eligibility eligible = eligibility(facts, api_->question);
  if (eligible.limit == ReuseLimit::kNothing) {
    return none("not-deterministic", std::string(eligible.why));
  }
  may_reuse_ = true;
  MatchLevel loosest = tenant_.max_match.value_or(settings.max_match);
  if (directives_.ceiling.has_value()) loosest = std::min(loosest, *directives_.ceiling);
  // Canonical forms fold how people word questions; they say nothing of a prompt to complete.
  if (eligible.limit == ReuseLimit::kExact || unstated || *operation_ != ApiOperation::kChat ||
      api_->question.empty()) {
    loosest = MatchLevel::kExact;
  } else {
    // Who allows exact matches only wants no looser ones.
    similarity_allowed_ =
        loosest > MatchLevel::kExact && tenant_.similarity && !directives_.ceiling.has_value();
  }
  rules_ = {.serve = loosest,
            .watch = loosest,
            .max_age = directives_.max_age,
            .min_fresh = directives_.min_fresh};
}

/// What is partial serves the very same words only, whatever wrote it down.
bool GatewayRequest::fits(const ApiRecord& record, MatchLevel rung) const {
  const bool is_whole = record.finish_reason() == "stop" && !record.calls_tools();
  if (!is_whole && rung != MatchLevel::kExact) return false;
  return api_->stream ? record.can_be_streamed(api_->include_usage) : record.has_body();
}

bool GatewayRequest::take_found(AnswerLookup& found) {
  auto record = found.shared == nullptr
                    ? ApiRecord::parse(found.answer->record)
                    : gateway_.records().parse(
                          std::shared_ptr<const std::string>(found.shared, &found.shared->record));
  if (!record.has_value() || !fits(*record, found.steps.back().rung)) return false;
  found_ = Found{.lookup = std::move(found), .record = *std::move(record)};
  return true;
}

GatewayRequest::Next GatewayRequest::respond_from_cache() {
  const auto& [lookup, record] = *found_;
  const bool by_similarity = lookup.by_similarity;
  const MatchStep& step = lookup.steps.back();
  const bool elsewhere = answered_elsewhere_;
  decision_.outcome = elsewhere ? Outcome::kJoined : Outcome::kHit;
  decision_.rung = by_similarity ? "similarity" : to_string(step.rung);
  decision_.reason = elsewhere ? "answered-elsewhere" : "served";
  decision_.why = elsewhere       ? "another gateway was asking the same"
                  : by_similarity ? "a similar question was answered before"
                                  : "the same was answered before";
  const Duration delay = hides_hits() ? hit_delay(lookup.saved) : Duration(0);
  const Duration took = gateway_.parts().clock.now() - arrived_ + delay;
  decision_.saved = std::max(Duration(0), lookup.saved - took);
  decision_.saved_prompt_tokens = lookup.answer->prompt_tokens.value();
  decision_.saved_output_tokens = lookup.answer->output_tokens.value();
  charge_saved(decision_.saved_prompt_tokens, decision_.saved_output_tokens);
  decision_.first_byte = took;
  HttpHeaders headers;
  headers.reserve(8);
  headers.add("Content-Type",
              api_->stream ? "text/event-stream; charset=utf-8" : "application/json");
  if (api_->stream) headers.add("Cache-Control", "no-cache");
  const ResponseStamp stamp = gateway_.parts().ids.answer(*operation_);
  HttpBody body = cached_body(record, stamp);
  if (step.rung != MatchLevel::kExact) verify_later(lookup, record);
  const CacheReport report{.outcome = elsewhere ? CacheOutcome::kJoined : CacheOutcome::kHit,
                           .detail = elsewhere ? decision_.reason : decision_.rung,
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

/// The bytes, or, of a large answer, what makes them while the client reads. An answer that is translated
/// as a whole is needed as a whole.
HttpBody GatewayRequest::cached_body(const ApiRecord& record, const ResponseStamp& stamp) const {
  ApiRecord shared = found_->lookup.shared != nullptr ? record : gateway_.records().share(record);
  RecordText text =
      api_->stream ? shared.events_text(stamp, api_->include_usage) : shared.body_text(stamp);
  if (text.size() <= RecordSource::kPiece || (translation_ != nullptr && !api_->stream)) {
    return text.next(text.size());
  }
  return std::make_shared<RecordSource>(std::move(shared), std::move(text));
}

bool GatewayRequest::hides_hits() const {
  const std::string& floor = config_->settings.answers.timing_protection;
  return operation_.has_value() && (floor == "all" || (floor == "shared" && tenant_.shares));
}

Duration GatewayRequest::hit_delay(Duration saved) const {
  const Duration floor = std::max(saved, config_->settings.answers.least_hit_time);
  return std::max(Duration(0), arrived_ + floor - gateway_.parts().clock.now());
}

Decision GatewayRequest::explain() {
  explain_answer();
  const bool asks = decision_.outcome == Outcome::kMiss || decision_.outcome == Outcome::kBypass ||
                    decision_.outcome == Outcome::kRefresh;
  if (asks) decision_.route = gateway_.parts().backend.route(backend_request());
  return decision_;
}

void GatewayRequest::explain_answer() {
  if (const auto refusal = admit(Counting::kDoesNotCount)) {
    refuse(*refusal);
    return;
  }
  if (const auto refusal = translate_body()) {
    refuse(*refusal);
    return;
  }
  const auto read = read_body();
  if (!read.has_value()) {
    bypass("unreadable", read.error().message);
    return;
  }
  if (read->has_value()) {
    refuse(**read);
    return;
  }
  if (std::ranges::any_of(api_->media, [](const auto& item) { return item.bytes == nullptr; })) {
    bypass("media-by-address", "media by address can only be identified once they are fetched");
    return;
  }
  if (!identify_request()) return;
  decide_eligibility();
  if (!may_reuse_) return;
  if (directives_.no_cache) {
    note_refresh();
    return;
  }
  const AnswerLookup found = gateway_.parts().reuse.answer_cache()->peek(*question_, rules_);
  decision_.ladder = found.steps;
  AnswerArchive* const archive = gateway_.parts().archive;
  const bool known = archive == nullptr || archive->stats().may_serve;
  const bool hit = known && found.answer.has_value();
  decision_.outcome = hit ? Outcome::kHit : Outcome::kMiss;
  decision_.reason = hit ? "served" : "uri-miss";
  if (hit) {
    decision_.why = "the same was answered before";
  } else if (found.answer.has_value()) {
    decision_.why = kNotKnown;
  } else {
    explain_miss();
    explain_similar();
  }
  if (hit) decision_.rung = to_string(found.steps.back().rung);
  decision_.saved = found.saved;
}

void GatewayRequest::explain_similar() {
  if (!may_use_similar()) return;
  const auto lookup = gateway_.parts().similar->peek(*question_, rules_);
  if (!lookup.has_value()) return;
  decision_.similar = step_of(lookup->found);
  if (lookup->found.verdict != Verdict::kServed) return;
  decision_.outcome = Outcome::kHit;
  decision_.reason = "served";
  decision_.rung = "similarity";
  decision_.why = "a similar question was answered before";
}

void GatewayRequest::note_refresh() {
  decision_.outcome = Outcome::kRefresh;
  decision_.reason = "no-cache";
  decision_.why = "the request asks for a new answer";
}

}  // namespace afterimage
