// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/gateway_request.h"

#include <algorithm>
#include <utility>

#include "caches/identity/content.h"
#include "gateway/proxy/media_fetch.h"

namespace afterimage {
namespace {

/// Larger bodies are read where nobody else waits: a picture takes milliseconds.
constexpr std::size_t kReadHere = 64 * 1024;
constexpr std::size_t kShown = 200;
constexpr const char* kNotKnown =
    "whether others have erased the answer is not known now: the servers did not tell";

/// A client's own name for its request, if it is one that may stand in a header and a log.
std::optional<std::string> given_id(const HttpHeaders& headers) {
  const auto id = headers.find("x-request-id");
  if (!id.has_value() || id->empty() || id->size() > 128) return std::nullopt;
  const bool visible = std::ranges::all_of(*id, [](char c) { return c > ' ' && c < 0x7F; });
  return visible ? std::optional(std::string(*id)) : std::nullopt;
}

/// The trace's id in W3C's "00-<32 hex>-<16 hex>-<2 hex>"; empty: none.
std::string trace_of(const HttpHeaders& headers) {
  const auto parent = headers.find("traceparent");
  if (!parent.has_value() || parent->size() < 55 || (*parent)[2] != '-') return "";
  const std::string_view id = parent->substr(3, 32);
  const bool hex = std::ranges::all_of(
      id, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  return hex ? std::string(id) : "";
}

/// The beginning, without half a character at the end.
std::string shown(std::string_view text) {
  if (text.size() <= kShown) return std::string(text);
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "…";
}

std::string lowered(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return lower;
}

/// Once for all who need the digests: the answer's identity, and the built-in engine.
void hash_media(std::vector<ApiMedia>& media) {
  for (ApiMedia& item : media) {
    if (item.bytes == nullptr || item.digest.has_value()) continue;
    item.digest = content_digest({.modality = item.modality, .files = {item.bytes}});
  }
}

bool is_of_the_api(std::string_view header) {
  static constexpr std::string_view kPrefix = "openai-";
  return same_header(header.substr(0, kPrefix.size()), kPrefix);
}

}  // namespace

HttpReply error_reply(unsigned status, std::string_view message, std::string_view type,
                      std::string_view code) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json"}},
          .body = api_error(message, type, code)};
}

GatewayRequest::GatewayRequest(Gateway& gateway, std::optional<ApiOperation> operation,
                               HttpRequest request, std::optional<Responder> responder)
    : gateway_(gateway),
      config_(gateway.config()),
      operation_(operation),
      request_(std::move(request)),
      responder_(std::move(responder)),
      arrived_(gateway.parts().clock.now()),
      body_(request_.body) {
  decision_.at = gateway.parts().ids.clock().now();
  decision_.operation = operation.has_value() ? to_string(*operation) : "other";
  decision_.request_id = given_id(request_.headers).value_or("");
  if (decision_.request_id.empty()) decision_.request_id = gateway.parts().ids.request();
  decision_.trace_id = trace_of(request_.headers);
}

void GatewayRequest::begin() {
  gateway_.counts().began();
  responder_->on_disconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->client_left();
  });
  if (!admit()) return;
  if (!operation_.has_value()) {
    bypass("not-cacheable", "only chat, completions and embeddings are reused");
    return pass_on();
  }
  if (request_.body->size() <= kReadHere) return read();
  if (!gateway_.readers().post([self = shared_from_this()] { self->read(); })) {
    refuse(503, "too many large requests are waiting; try again soon", "server_error",
           "overloaded");
  }
}

bool GatewayRequest::admit() {
  const HttpHeaders& headers = request_.headers;
  // The wish of the body is not known at first; with its namespace this is looked at again.
  auto directives = cache_directives(headers, api_ == nullptr ? std::nullopt : api_->cache);
  if (!directives.has_value()) {
    refuse(400, directives.error().message, "invalid_request_error", "invalid_header");
    return false;
  }
  directives_ = *std::move(directives);
  // Joined: of two, whoever is asked next may take the other one.
  auto key = headers.joined("x-api-key");
  if (const auto other = headers.joined("api-key"); other.has_value() && other != key) {
    key = key.has_value() ? *key + ", " + *other : *other;
  }
  auto tenant =
      config_->tenants->identify(headers.joined("authorization"), key, directives_.name_space);
  if (!tenant.has_value()) {
    const bool quota = tenant.error().code == ErrorCode::kLimitExceeded;
    decision_.tenant = "refused";
    refuse(quota ? 429 : 401, tenant.error().message,
           quota ? "rate_limit_error" : "authentication_error",
           quota ? "rate_limit_exceeded" : "invalid_api_key");
    return false;
  }
  tenant_ = *std::move(tenant);
  decision_.tenant = tenant_.name;
  decision_.keeps_in = tenant_.keeps_in.text();
  return true;
}

void GatewayRequest::read() {
  const auto understood = understand();
  if (over_) return;
  if (understood.has_value()) return fetch();
  if (!gateway_.parts().backend.takes_anything()) {
    return refuse(400, understood.error().message, "invalid_request_error", "invalid_body");
  }
  bypass("unreadable", understood.error().message);
  pass_on();
}

Result<void> GatewayRequest::understand() {
  AFI_TRY(ApiRequest read, read_api_request(*operation_, *request_.body));
  hash_media(read.media);
  api_ = std::make_shared<const ApiRequest>(std::move(read));
  decision_.model = api_->model;
  decision_.question = shown(api_->question);
  if (!api_->cache.has_value()) return {};
  const std::string before = directives_.name_space;
  auto directives = cache_directives(request_.headers, api_->cache);
  if (!directives.has_value()) {
    refuse(400, directives.error().message, "invalid_request_error", "invalid_cache_directives");
    return {};
  }
  directives_ = *std::move(directives);
  if (directives_.name_space != before) admit();
  return {};
}

void GatewayRequest::fetch() {
  const auto& media = api_->media;
  const bool all_here =
      std::ranges::all_of(media, [](const ApiMedia& item) { return item.bytes != nullptr; });
  if (all_here) return look();
  const MediaSettings& settings = config_->settings.media;
  if (const auto may = may_fetch(media, settings); !may.has_value()) {
    if (!gateway_.parts().backend.takes_anything()) {
      return refuse(400, may.error().message, "invalid_request_error", "media_not_allowed");
    }
    bypass("media-by-address",
           "what lies behind an address is not known before it is fetched: " + may.error().message);
    return pass_on();
  }
  IoThreads& threads = gateway_.parts().threads;
  threads.post(threads.here_or_next(), [self = shared_from_this()] {
    fetch_media(self->api_->media, self->config_->settings.media, self->gateway_.parts().caller,
                [self](Result<std::vector<ApiMedia>> fetched) {
                  if (!fetched.has_value()) {
                    return self->refuse(400, fetched.error().message, "invalid_request_error",
                                        "media_not_fetched");
                  }
                  // Whoever answers gets what was identified, and not what lies there by then.
                  self->body_ = std::make_shared<const std::string>(
                      with_fetched_media(*self->request_.body, *fetched));
                  auto with = std::make_shared<ApiRequest>(*self->api_);
                  with->media = *std::move(fetched);
                  hash_media(with->media);
                  self->api_ = std::move(with);
                  self->look();
                });
  });
}

void GatewayRequest::look() {
  if (!identify_request()) return pass_on();
  decide_limit();
  if (!may_reuse_) return pass_on();
  // An answer to "is it kept?" is what is hidden.
  if (hides_hits() && directives_.only_if_cached) return ask_the_model();
  landed_ = gateway_.broadcasts().landed();
  AnswerCache& cache = *gateway_.parts().reuse.answer_cache();
  AnswerArchive* const archive = gateway_.parts().archive;
  const auto before = archive == nullptr ? AnswerArchive::ReadLease() : archive->read_lease();
  if (directives_.no_cache) {
    refresh();
    return join_or_start();
  }
  AnswerLookup found = cache.find(*question_, rules_);
  decision_.ladder = found.steps;
  if (found.answer.has_value() && archive != nullptr && !archive->may_give(before)) {
    cache.retract_hit(found);
    decision_.why = kNotKnown;
    return ask_the_model();
  }
  if (found.answer.has_value()) {
    const auto record = ApiRecord::parse(found.answer->record);
    if (record.has_value() && fits(*record, found.steps.back().rung)) {
      return answer_from_cache(found, *record);
    }
    cache.retract_hit(found);
    decision_.why = "what is kept does not hold all that was asked for";
    return ask_the_model();
  }
  look_below();
}

/// A disk may take its time; others do not wait for it.
void GatewayRequest::look_below() {
  AnswerArchive* const archive = gateway_.parts().archive;
  if (archive == nullptr) return ask_the_model();
  const bool posted = gateway_.disk_workers().post([self = shared_from_this(), archive] {
    auto found = archive->restore(*self->question_, self->rules_, self->quota());
    if (!found.has_value()) return self->ask_the_model();
    const auto record = ApiRecord::parse(found->answer->record);
    if (!record.has_value() || !self->fits(*record, found->steps.back().rung)) {
      return self->ask_the_model();
    }
    self->decision_.ladder.push_back(found->steps.back());
    self->answer_from_cache(*found, *record);
  });
  if (!posted) ask_the_model();
}

void GatewayRequest::ask_the_model() {
  if (directives_.only_if_cached) {
    decision_.reason = "only-if-cached";
    return refuse(504, "there is no answer to this that may be served", "cache_miss",
                  "only_if_cached");
  }
  decision_.outcome = Outcome::kMiss;
  decision_.reason = "uri-miss";
  if (decision_.why.empty()) explain_miss();
  join_or_start();
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
  auto space =
      gateway_.spaces().of(gateway_.parts().backend.identity(api_->model), tenant_.keeps_in);
  if (!space.has_value()) {
    bypass("unidentified", space.error().message);
    return false;
  }
  space_ = *std::move(space);
  Scope scope = scope_of(*api_, contents, space_->inputs);
  scope.other["afterimage.operation"] = to_string(api_->operation);
  scope.other["afterimage.model"] = api_->model;
  // What truncates an answer is part of what it is the answer to.
  const auto limit = gateway_.parts().backend.default_max_tokens();
  if (!api_->max_tokens.has_value() && limit.has_value()) {
    scope.other["afterimage.max_tokens"] = std::to_string(*limit);
  }
  // Azure's api-version, for one, changes what is answered.
  const std::size_t query = request_.target.find('?');
  if (query != std::string::npos) scope.other["afterimage.query"] = request_.target.substr(query);
  // So do OpenAI-Beta, OpenAI-Organization and their like.
  for (const auto& [name, value] : request_.headers) {
    if (is_of_the_api(name)) scope.other["afterimage.header." + lowered(name)] += value + "\n";
  }
  question_.emplace(identify(scope, space_->name_space, space_->answers), api_->question);
  decision_.scope = question_->scope().key.hex();
  return true;
}

void GatewayRequest::decide_limit() {
  const AnswerSettings& settings = config_->settings.answers;
  const auto none = [&](std::string_view reason, std::string why) {
    bypass(reason, std::move(why));
  };
  if (!settings.enabled || gateway_.parts().reuse.answer_cache() == nullptr) {
    return none("disabled", "answers are not kept here");
  }
  if (directives_.off) return none("off", "the request asks for no reuse");
  SamplingFacts facts = api_->sampling;
  const bool unstated = !facts.temperature.has_value() && !facts.seeded &&
                        api_->operation != ApiOperation::kEmbedding;
  if (api_->operation == ApiOperation::kEmbedding ||
      (unstated && settings.assume_greedy_when_unset)) {
    facts.temperature = 0;
  }
  const bool timeless = api_->operation == ApiOperation::kEmbedding;
  if (unstated && !settings.assume_greedy_when_unset) {
    return none("no-temperature",
                "the request names no temperature, and the server's own is seldom 0: send "
                "temperature 0, or set answers.assume_greedy_when_unset");
  }
  const Eligibility eligible = eligibility(facts, timeless ? "" : api_->question);
  if (eligible.limit == ReuseLimit::kNothing) {
    const bool time = !timeless && depends_on_time(api_->question);
    return none(time ? "depends-on-time" : "not-deterministic", std::string(eligible.why));
  }
  may_reuse_ = true;
  TextRung loosest = tenant_.max_match.value_or(settings.max_match);
  if (directives_.ceiling.has_value()) loosest = std::min(loosest, *directives_.ceiling);
  // What is folded is how people ask; a prompt that is completed has no such forms.
  if (eligible.limit == ReuseLimit::kExact || unstated || *operation_ != ApiOperation::kChat ||
      api_->question.empty()) {
    loosest = TextRung::kExact;
  }
  rules_ = {.serve = loosest,
            .watch = loosest,
            .max_age = directives_.max_age,
            .min_fresh = directives_.min_fresh};
}

/// What is partial serves the very same words only, whatever wrote it down.
bool GatewayRequest::fits(const ApiRecord& record, TextRung rung) const {
  const bool is_whole = record.finish_reason() == "stop" && !record.calls_tools();
  if (!is_whole && rung != TextRung::kExact) return false;
  return api_->stream ? record.can_be_streamed(api_->include_usage) : record.can_be_whole();
}

AnswerQuota GatewayRequest::quota() const {
  AnswerQuota quota{.bytes = tenant_.max_bytes, .entries = {}};
  if (tenant_.max_entries.has_value()) quota.entries = EntryCount(*tenant_.max_entries);
  return quota;
}

void GatewayRequest::answer_from_cache(AnswerLookup& found, const ApiRecord& record) {
  const MatchStep& step = found.steps.back();
  const ApiStamp stamp = gateway_.parts().ids.answer(*operation_);
  decision_.outcome = joined_elsewhere_ ? Outcome::kJoined : Outcome::kHit;
  decision_.rung = to_string(step.rung);
  decision_.reason = joined_elsewhere_ ? "answered-elsewhere" : "served";
  decision_.why =
      joined_elsewhere_ ? "another gateway was asking the same" : "the same was answered before";
  const Duration wait = hides_hits() ? held_back(found.saved) : Duration(0);
  const Duration took = gateway_.parts().clock.now() - arrived_ + wait;
  decision_.saved = std::max(Duration(0), found.saved - took);
  decision_.saved_prompt_tokens = found.answer->prompt_tokens.value();
  decision_.saved_output_tokens = found.answer->output_tokens.value();
  HttpHeaders headers;
  headers.add("Content-Type",
              api_->stream ? "text/event-stream; charset=utf-8" : "application/json");
  if (api_->stream) headers.add("Cache-Control", "no-cache");
  std::string body = api_->stream ? record.events(stamp, api_->include_usage) : record.body(stamp);
  decision_.first_byte = took;
  if (step.rung != TextRung::kExact) compare_later(found, record);
  const CacheReport report{
      .outcome = joined_elsewhere_ ? CacheOutcome::kJoined : CacheOutcome::kHit,
      .detail = joined_elsewhere_ ? decision_.reason : decision_.rung,
      .stored = false,
      .age = step.age,
      .ttl = found.left};
  if (wait <= Duration(0)) {
    reply(200, std::move(headers), std::move(body), report);
    return over();
  }
  IoThreads& threads = gateway_.parts().threads;
  threads.post_after(threads.here_or_next(), wait,
                     [self = shared_from_this(), headers = std::move(headers),
                      body = std::move(body), report]() mutable {
                       self->reply(200, std::move(headers), std::move(body), report);
                       self->over();
                     });
}

bool GatewayRequest::hides_hits() const {
  const std::string& floor = config_->settings.answers.timing_protection;
  return operation_.has_value() && (floor == "all" || (floor == "shared" && tenant_.shares));
}

Duration GatewayRequest::held_back(Duration saved) const {
  const Duration floor = std::max(saved, config_->settings.answers.least_hit_time);
  return std::max(Duration(0), arrived_ + floor - gateway_.parts().clock.now());
}

Decision GatewayRequest::explain() {
  if (!admit()) return decision_;
  const auto understood = understand();
  if (over_) return decision_;
  if (!understood.has_value()) {
    bypass("unreadable", understood.error().message);
    return decision_;
  }
  if (std::ranges::any_of(api_->media, [](const auto& item) { return item.bytes == nullptr; })) {
    bypass("media-by-address", "what lies behind an address is not known before it is fetched");
    return decision_;
  }
  if (!identify_request()) return decision_;
  decide_limit();
  if (!may_reuse_) return decision_;
  if (directives_.no_cache) {
    refresh();
    return decision_;
  }
  const AnswerLookup found = gateway_.parts().reuse.answer_cache()->peek(*question_, rules_);
  decision_.ladder = found.steps;
  AnswerArchive* const archive = gateway_.parts().archive;
  const bool known = archive == nullptr || archive->stats().may_give;
  const bool hit = known && found.answer.has_value();
  decision_.outcome = hit ? Outcome::kHit : Outcome::kMiss;
  decision_.reason = hit ? "served" : "uri-miss";
  if (hit) {
    decision_.why = "the same was answered before";
  } else if (found.answer.has_value()) {
    decision_.why = kNotKnown;
  } else {
    explain_miss();
  }
  if (hit) decision_.rung = to_string(found.steps.back().rung);
  decision_.saved = found.saved;
  return decision_;
}

void GatewayRequest::refresh() {
  decision_.outcome = Outcome::kRefresh;
  decision_.reason = "no-cache";
  decision_.why = "a new answer was asked for";
}

void GatewayRequest::bypass(std::string_view reason, std::string why) {
  decision_.outcome = Outcome::kBypass;
  decision_.reason = reason;
  decision_.why = std::move(why);
}

void GatewayRequest::refuse(unsigned status, std::string_view message, std::string_view type,
                            std::string_view code) {
  decision_.outcome = Outcome::kError;
  if (decision_.reason.empty()) decision_.reason = code;
  decision_.why = message;
  HttpReply made = error_reply(status, message, type, code);
  if (status == 401) made.headers.add("WWW-Authenticate", "Bearer");
  reply(status, std::move(made.headers), std::move(made.body),
        {.outcome = CacheOutcome::kBypass, .detail = decision_.reason});
  over();
}

void GatewayRequest::reply(unsigned status, HttpHeaders headers, HttpBody body,
                           const CacheReport& report) {
  decision_.status = status;
  if (!hides_hits()) add_cache_headers(headers, report);
  headers.set("X-Request-Id", decision_.request_id);
  if (responder_.has_value()) {
    responder_->reply({.status = status, .headers = std::move(headers), .body = std::move(body)});
  }
}

void GatewayRequest::over() {
  if (std::exchange(over_, true) || !responder_.has_value()) return;
  decision_.took = gateway_.parts().clock.now() - arrived_;
  if (decision_.first_byte == Duration(0)) decision_.first_byte = decision_.took;
  {
    const MutexLock lock(leaving_);
    decision_.stored = stored_;
  }
  gateway_.counts().ended(decision_);
  Log& log = gateway_.parts().log;
  if (config_->settings.log.requests && log.wants(LogLevel::kInfo)) {
    log.info("request",
             {{"request_id", decision_.request_id},
              {"trace_id", decision_.trace_id},
              {"tenant", decision_.tenant},
              {"operation", decision_.operation},
              {"model", decision_.model},
              {"outcome", to_string(decision_.outcome)},
              {"reason", decision_.reason},
              {"rung", decision_.rung},
              {"stored", decision_.stored.has_value() ? to_string(*decision_.stored) : ""},
              {"status", static_cast<std::uint64_t>(decision_.status)},
              {"took_ms", std::chrono::duration<double, std::milli>(decision_.took).count()}});
  }
  const MutexLock lock(leaving_);
  decision_.stored = stored_;
  decided_as_ = gateway_.decisions().add(decision_);  // keep() needs the decision, too
}

}  // namespace afterimage
