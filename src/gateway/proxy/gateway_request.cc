// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/gateway_request.h"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "afterimage/identity.h"
#include "afterimage/result.h"
#include "foundation/crypto/sha256.h"
#include "foundation/json/json_text.h"
#include "gateway/endpoints/endpoint_request.h"
#include "gateway/openai/attached_bytes.h"
#include "gateway/protocol/chat_files.h"
#include "gateway/protocol/fields.h"
#include "gateway/protocol/volatile_blocks.h"
#include "gateway/proxy/media_fetch.h"
#include "gateway/proxy/retry_after.h"

namespace afterimage {
namespace {

/// Larger bodies are read on threads of their own: a picture takes milliseconds.
constexpr std::size_t kReadHere = 64 * 1024;

/// Whether a body may become a large one: it names files, or a conversation.
bool names_stored_content(std::string_view body) {
  if (!body.contains(R"(_id")")) return false;  // most bodies, by one search
  return body.contains(R"("file_id")") || body.contains(R"("previous_response_id")");
}

/// The client's id of its request, if it may stand in a header and a log.
std::optional<std::string> given_id(const HttpHeaders& headers) {
  const auto id = headers.find("x-request-id");
  if (!id.has_value() || id->empty() || id->size() > 128) return std::nullopt;
  const bool visible = std::ranges::all_of(*id, [](char c) { return c > ' ' && c < 0x7F; });
  return visible ? std::optional(std::string(*id)) : std::nullopt;
}

/// Once for both who need the digests: the answer's identity and the built-in engine.
void hash_media(std::vector<ApiMedia>& media) {
  for (ApiMedia& item : media) {
    if (item.bytes == nullptr || item.digest.has_value()) continue;
    item.digest = content_digest({.modality = item.modality, .files = {item.bytes}});
  }
}

/// 100, 1,000, 10,000, …: an operator learns of what is frequent, and the log does not grow with it.
bool is_worth_a_line(std::uint64_t bypasses) {
  if (bypasses < 100) return false;
  while (bypasses % 10 == 0) bypasses /= 10;
  return bypasses == 1;
}

}  // namespace

HttpReply error_reply(unsigned status, std::string_view message, std::string_view type,
                      std::string_view code) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json"}},
          .body = api_error(message, type, code)};
}

GatewayRequest::GatewayRequest(Gateway& gateway, std::optional<ApiOperation> operation,
                               HttpRequest request, std::optional<Responder> responder,
                               std::shared_ptr<Translation> translation)
    : gateway_(gateway),
      config_(gateway.config()),
      request_(std::move(request)),
      responder_(std::move(responder)),
      translation_(std::move(translation)),
      arrived_(gateway.parts().clock.now()),
      storing_(gateway, *config_, asked_, terms_),
      prompt_(gateway, asked_),
      spans_(gateway, request_, arrived_) {
  asked_.operation = operation;
  asked_.body = request_.body;
  decision_.at = gateway.parts().ids.clock().now();
  decision_.operation = operation.has_value() ? to_string(*operation) : "other";
  if (translation_ != nullptr) decision_.protocol = translation_->name();
  decision_.request_id = given_id(request_.headers).value_or("");
  if (decision_.request_id.empty()) decision_.request_id = gateway.parts().ids.request();
}

void GatewayRequest::advance(RequestStage next) {
  AFI_CHECK(may_follow(stage_, next));
  spans_.end_stage(stage_, next, stage_ == RequestStage::kWaitingForBackend && leads_);
  if (is_restart(stage_, next)) ++restarts_;
  AFI_CHECK(restarts_ <= kMaxRestarts);
  stage_ = next;
}

void GatewayRequest::resume(RequestStage next) {
  // A handler that suspends may be resumed on another thread before it returns: nothing of the
  // request is touched after that.
  for (Next stage = next; stage.has_value();) {
    advance(*stage);
    stage = handle(*stage);
  }
}

GatewayRequest::Next GatewayRequest::handle(RequestStage stage) {
  switch (stage) {
    case RequestStage::kReceived:
      return on_received();
    case RequestStage::kReading:
      return on_reading();
    case RequestStage::kFetchingMedia:
      return on_fetching_media();
    case RequestStage::kLookingUp:
      return on_looking_up();
    case RequestStage::kLookingUpArchive:
      return on_looking_up_archive();
    case RequestStage::kLookingUpSimilar:
      return on_looking_up_similar();
    case RequestStage::kJoining:
      return on_joining();
    case RequestStage::kLeasing:
      return on_leasing();
    case RequestStage::kWaitingForBackend:
      return on_waiting_for_backend();
    case RequestStage::kResponding:
      return on_responding();
    case RequestStage::kDone:
      return on_done();
  }
  AFI_CHECK(false);
}

void GatewayRequest::begin() {
  gateway_.counts().began();
  spans_.begin(config_->settings.telemetry.sample_ratio, decision_);
  responder_->on_disconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->client_.leave();
  });
  if (const Next next = handle(stage_)) resume(*next);
}

GatewayRequest::Next GatewayRequest::on_received() {
  if (const auto refusal = admit(Counting::kCounts)) return refuse(*refusal);
  if (!asked_.operation.has_value()) {
    const Stop uncached = bypass(Reason::kNotCacheable);
    const auto refusal = path_price_refusal(asked_, request_.method);
    return stop(refusal.has_value() ? Stop{refusal} : uncached);
  }
  if (request_.body->size() <= kReadHere && !names_stored_content(*request_.body)) {
    return RequestStage::kReading;
  }
  const bool posted = gateway_.readers().post([self = shared_from_this()] {
    self->on_worker([&] { self->resume(RequestStage::kReading); });
  });
  if (posted) return std::nullopt;
  return refuse({503, std::string(afterimage::explain(Reason::kOverloaded)), "server_error",
                 Reason::kOverloaded});
}

std::optional<Refusal> GatewayRequest::admit(Counting counting) {
  const HttpHeaders& headers = request_.headers;
  // The body's cache object is not known at first; with its namespace this is done again.
  auto directives =
      cache_directives(headers, asked_.api == nullptr ? std::nullopt : asked_.api->cache);
  if (!directives.has_value()) {
    return refused(400, Reason::kInvalidHeader, directives.error().message);
  }
  asked_.directives = *std::move(directives);
  auto tenant = identify(*config_->tenants, headers, asked_.directives.name_space, counting);
  if (!tenant.has_value()) {
    decision_.tenant = "refused";
    const DenialWords words = words_of(tenant.error());
    return Refusal{words.status, tenant.error().message, words.type, words.code,
                   tenant.error().retry_after};
  }
  if (counting == Counting::kDoesNotCount) tenant->counted_at = asked_.tenant.counted_at;
  asked_.tenant = *std::move(tenant);
  decision_.tenant = asked_.tenant.name;
  decision_.cache_namespace = asked_.tenant.cache_namespace.text();
  return std::nullopt;
}

GatewayRequest::Next GatewayRequest::on_reading() {
  if (const auto stopped = read()) return stop(*stopped);
  if (has_all_media()) return RequestStage::kLookingUp;
  const auto may = may_fetch(asked_.api->media, config_->settings.media);
  if (may.has_value()) return RequestStage::kFetchingMedia;
  if (!gateway_.parts().backend.takes_anything()) {
    return refuse(refused(400, Reason::kMediaNotAllowed, may.error().message));
  }
  const std::string why(afterimage::explain(Reason::kMediaByAddress));
  return stop(bypass(Reason::kMediaByAddress, why + ": " + may.error().message));
}

std::optional<GatewayRequest::Stop> GatewayRequest::read() {
  if (const auto refusal = translate_body()) return Stop{refusal};
  const auto body = read_body();
  if (!body.has_value()) {
    const std::string& why = body.error().message;
    if (translation_ != nullptr || !gateway_.parts().backend.takes_anything()) {
      return Stop{refused(400, Reason::kInvalidBody, why)};
    }
    const bool names_address = body.error().code == ErrorCode::kUnsupported;
    const Stop uncached =
        bypass(names_address ? Reason::kMediaByAddress : Reason::kUnreadable, why);
    const auto refusal = price_refusal(asked_, config_->prices, why);
    return refusal.has_value() ? Stop{refusal} : uncached;
  }
  if (body->has_value()) return Stop{*body};
  const auto refusal = is_verbatim(*asked_.operation) ? path_price_refusal(asked_, request_.method)
                                                      : price_refusal(asked_, config_->prices);
  if (refusal.has_value()) return Stop{refusal};
  return std::nullopt;
}

bool GatewayRequest::has_all_media() const {
  return std::ranges::all_of(asked_.api->media,
                             [](const ApiMedia& item) { return item.bytes != nullptr; });
}

/// A file within a request of another API may be a text of the chat.
void GatewayRequest::note_texts(std::string_view body) {
  if (!body.contains(R"("document")") && !body.contains(R"("input_file")")) return;
  JsonReader reader;
  const auto root = reader.read(body);
  if (root.has_value()) add_attached(*root, asked_.texts);
}

/// nullopt: the body is what it was.
Result<std::optional<std::string>> GatewayRequest::translated_body() {
  const Stabilising may = stabilising_of(config_->settings.prompt.stabilise);
  AFI_TRY(std::optional<std::string> chat, chat_body(may));
  if (asked_.operation != ApiOperation::kChat) return chat;
  auto stable = stabilised(chat.has_value() ? *chat : *request_.body, may);
  if (!stable.has_value()) return chat;
  decision_.stabilised = std::move(stable->parts);
  return std::move(stable->body);
}

Result<std::optional<std::string>> GatewayRequest::chat_body(const Stabilising& may) {
  const auto files = [this]() -> FileLookup {
    return [this, find = gateway_.files_of(asked_.tenant)](std::string_view id) {
      auto file = find(id);
      if (file.has_value()) {
        asked_.texts.push_back({sha256(std::as_bytes(std::span(*file->bytes)))});
      }
      return file;
    };
  };
  if (translation_ != nullptr) {
    return translation_->request(
        *request_.body,
        {.tenant = asked_.tenant.id, .files = files(), .keeps_billing_lines = !may.billing_lines});
  }
  std::optional<std::string> chat;
  if (asked_.operation != ApiOperation::kChat) return chat;
  auto without = may.billing_lines ? without_volatile_lines(*request_.body) : std::nullopt;
  if (without.has_value()) {
    left_out_ = std::move(without->left_out);
    chat = std::move(without->body);
  }
  const std::string& body = chat.has_value() ? *chat : *request_.body;
  if (!gateway_.files().is_enabled() || !names_stored_content(body)) return chat;
  AFI_TRY(auto with_files, with_uploaded_files(body, files()));
  return with_files.has_value() ? std::move(with_files) : std::move(chat);
}

std::optional<Refusal> GatewayRequest::translate_body() {
  auto chat = translated_body();
  if (!chat.has_value()) {
    const Error& error = chat.error();
    switch (error.code) {
      case ErrorCode::kLimitExceeded:
        return refused(413, Reason::kTooLarge, error.message);
      case ErrorCode::kNotFound:
        return refused(404, Reason::kNotFound, error.message);
      case ErrorCode::kUnsupported:
        return refused(400, Reason::kUnsupported, error.message);
      default:
        return refused(400, Reason::kInvalidBody, error.message);
    }
  }
  const Bytes most = config_->settings.limits.http.body;
  if (chat->has_value() && Bytes((*chat)->size()) > most) {
    return refused(413, Reason::kTooLarge, std::string(afterimage::explain(Reason::kTooLarge)));
  }
  if (translation_ != nullptr) note_texts(*request_.body);
  if (chat->has_value()) {
    asked_.body = request_.body = std::make_shared<const std::string>(**std::move(chat));
  }
  return std::nullopt;
}

Result<std::optional<Refusal>> GatewayRequest::read_body() {
  const Backend& backend = gateway_.parts().backend;
  const ApiReader reader = backend.takes_anything() ? ApiReader::kOtherServer : ApiReader::kEngine;
  AFI_TRY(ApiRequest read,
          is_verbatim(*asked_.operation)
              ? read_endpoint_request(*asked_.operation,
                                      request_.headers.find("content-type").value_or(""),
                                      *request_.body)
              : read_api_request(*asked_.operation, *request_.body, reader));
  if (read.model.empty() && !is_verbatim(*asked_.operation)) read.model = backend.name();
  hash_media(read.media);
  asked_.api = std::make_shared<const ApiRequest>(std::move(read));
  asked_.chain = std::make_shared<SharedChain>(asked_.api);
  asked_.attached = attached_tags(asked_);
  decision_.model = asked_.api->model;
  decision_.question = beginning_of(asked_.api->question);
  if (!asked_.api->cache.has_value()) return std::nullopt;
  const std::string before = asked_.directives.name_space;
  auto directives = cache_directives(request_.headers, asked_.api->cache);
  if (!directives.has_value()) {
    return refused(400, Reason::kInvalidCacheDirectives, directives.error().message);
  }
  asked_.directives = *std::move(directives);
  return asked_.directives.name_space == before ? std::nullopt : admit(Counting::kDoesNotCount);
}

GatewayRequest::Next GatewayRequest::on_fetching_media() {
  IoThreads& threads = gateway_.parts().threads;
  threads.post(threads.here_or_next(), [self = shared_from_this()] {
    self->gateway_.media().fetch(
        self->asked_.tenant.id, self->asked_.api->media, self->config_->settings.media,
        [self](Result<std::vector<ApiMedia>> fetched) { self->media_fetched(std::move(fetched)); });
  });
  return std::nullopt;
}

void GatewayRequest::media_fetched(Result<std::vector<ApiMedia>> fetched) {
  if (!fetched.has_value()) {
    refuse(refused(400, Reason::kMediaNotFetched, fetched.error().message));
    return resume(RequestStage::kDone);
  }
  // The backend gets what was identified, and not what the address holds by then.
  asked_.body = std::make_shared<const std::string>(with_fetched_media(*request_.body, *fetched));
  auto with = std::make_shared<ApiRequest>(*asked_.api);
  with->media = *std::move(fetched);
  hash_media(with->media);
  asked_.api = std::move(with);
  asked_.chain = std::make_shared<SharedChain>(asked_.api);
  resume(RequestStage::kLookingUp);
}

void GatewayRequest::on_worker(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    // From joining on, its response is others' too, and other threads may have it.
    if (stage_ >= RequestStage::kJoining) throw;
    gateway_.parts().log.error("exception",
                               {{"request_id", decision_.request_id}, {"why", error.what()}});
    refuse({500, std::string(afterimage::explain(Reason::kInternal)), "server_error",
            Reason::kInternal});
    resume(RequestStage::kDone);
  }
}

GatewayRequest::Next GatewayRequest::stop(const Stop& stop) {
  return stop.refusal.has_value() ? refuse(*stop.refusal) : forward();
}

GatewayRequest::Next GatewayRequest::forward() {
  if (asked_.directives.only_if_cached && asked_.operation.has_value()) {
    return refuse(
        {504, "this is not reused: " + decision_.why, "cache_miss", Reason::kOnlyIfCached});
  }
  start_forwarding();
  return RequestStage::kWaitingForBackend;
}

GatewayRequest::Next GatewayRequest::on_done() {
  charge_joined();
  if (subscriber_ != nullptr && response().has_failed()) uncount();
  if (leads_ && subscriber_ != nullptr) settle_behind_reply();
  unsubscribe();
  record_decision();
  spans_.end(asked_, decision_);
  return std::nullopt;
}

/// This thread writes the reply before it comes to this.
void GatewayRequest::settle_behind_reply() {
  IoThreads& threads = gateway_.parts().threads;
  threads.post(threads.here_or_next(), [&gateway = gateway_] { gateway.settle(); });
}

void GatewayRequest::decide(Outcome outcome, Reason reason) {
  decision_.outcome = outcome;
  decision_.reason = reason;
  decision_.why = afterimage::explain(reason);
  if (outcome == Outcome::kHit) decision_.miss.reset();  // of a look-up before it
}

GatewayRequest::Stop GatewayRequest::bypass(Reason reason, std::string why) {
  decide(Outcome::kBypass, reason);
  if (!why.empty()) decision_.why = std::move(why);
  return {};
}

GatewayRequest::Next GatewayRequest::refuse(const Refusal& refusal) {
  decision_.outcome = Outcome::kError;
  if (decision_.reason == Reason::kNone) decision_.reason = refusal.code;
  decision_.why = refusal.message;
  HttpReply made =
      error_reply(refusal.status, refusal.message, refusal.type, code_of(refusal.code));
  if (refusal.status == 401) made.headers.add("WWW-Authenticate", "Bearer");
  add_retry_after(made.headers, refusal.retry_after);
  if (refusal.status == 503) add_missing_retry_after(made.headers);
  if (refusal.is_final) made.headers.add(std::string(kShouldRetry), "false");
  reply(refusal.status, std::move(made.headers), std::move(made.body),
        {.outcome = CacheOutcome::kBypass, .detail = std::string(to_string(decision_.reason))});
  return RequestStage::kDone;
}

void GatewayRequest::reply(unsigned status, HttpHeaders headers, HttpBody body,
                           const CacheReport& report, bool lasts) {
  decision_.status = status;
  if (is_failure(status) && decision_.reason != Reason::kOnlyIfCached) uncount();
  if (!hides_hits()) {
    CacheReport said = report;
    if (draw_.has_value() && status < 400) said.draw = draw_->number;
    add_cache_headers(headers, said);
  }
  note_ignored(status < 400 ? &headers : nullptr);
  if (status < 400) note_stabilised(headers);
  headers.set("X-Request-Id", decision_.request_id);
  if (!responder_.has_value()) return;
  HttpReply made{.status = status, .headers = std::move(headers), .body = std::move(body)};
  if (translation_ != nullptr) {
    if (status == 200) diagnose();
    made = translated(std::move(made), translation_, decision_.request_id);
    decision_.status = made.status;
  }
  // A client that has read a complete body finds its decision.
  if (!lasts) record_decision();
  responder_->reply(std::move(made));
}

/// Of a hit as well: its answer was no more constrained.
void GatewayRequest::note_ignored(HttpHeaders* headers) {
  decision_.ignored = left_out_;
  const auto add = [this](const std::vector<std::string>& places) {
    decision_.ignored.insert(decision_.ignored.end(), places.begin(), places.end());
  };
  if (asked_.api != nullptr) add(gateway_.parts().backend.ignored(*asked_.api));
  if (headers != nullptr) append_ignored(*headers, decision_.ignored);
  // translated() names these in the header.
  if (translation_ != nullptr) add(translation_->ignored());
}

void GatewayRequest::diagnose() {
  const auto comparison = translation_->comparison();
  if (comparison.has_value() && !comparison->response_id.empty()) {
    translation_->diagnose(diagnosis_since(comparison->response_id));
  }
  // Where hits are hidden, a later request finds the id of one as it finds a miss's.
  if (comparison.has_value() && found_.has_value() && hides_hits()) prompt_.keep();
  // A hit takes no time for clients who do not ask.
  if (comparison.has_value() || !found_.has_value()) prompt_.name(translation_->response_id());
}

PromptDiagnosis GatewayRequest::diagnosis_since(std::string_view response_id) {
  // Where hits are hidden, one is compared as a miss is.
  if (found_.has_value() && !hides_hits()) return {.state = PromptDiagnosis::State::kAnswered};
  if (!prompt_.applies()) return {.state = PromptDiagnosis::State::kNotCompared};
  const auto report = prompt_.against(response_id);
  if (!report.has_value()) return {.state = PromptDiagnosis::State::kNotFound};
  return {.state = PromptDiagnosis::State::kCompared, .divergence = report->divergence};
}

void GatewayRequest::note_stabilised(HttpHeaders& headers) const {
  std::vector<std::string> places;
  for (const StabilisedPart& part : decision_.stabilised) {
    if (std::ranges::find(places, part.place) == places.end()) places.push_back(part.place);
  }
  if (!places.empty()) headers.set("X-Afterimage-Stabilised", list_of(places));
}

void GatewayRequest::count_stabilised() {
  Counts& counts = gateway_.counts();
  for (const StabilisedPart& part : decision_.stabilised) counts.stabilised(part.change, 1);
  const std::size_t lines =
      translation_ != nullptr ? translation_->billing_lines() : left_out_.size();
  if (lines > 0) counts.stabilised("billing-lines", lines);
}

void GatewayRequest::record_decision() {
  if (std::exchange(recorded_, true) || !responder_.has_value()) return;
  count_stabilised();
  // Of a request that forbids storing its answer there is none to be reported, and its text is not kept.
  const bool is_unstored = asked_.directives.no_store && leads_ && !found_.has_value();
  if (terms_.has_value() && !is_unstored) {
    Answered answered{.asked = stored_question()};
    answered.inputs = batch_ != nullptr ? batch_->inputs : asked_.inputs;
    if (found_.has_value()) {
      const std::string& candidate = found_->lookup.steps.back().candidate;
      if (candidate != answered.asked.text()) answered.stored_as = candidate;
    }
    if (found_.has_value() && found_->lookup.by_similarity) answered.similar = similar_;
    decision_.answered = std::make_shared<const Answered>(std::move(answered));
  }
  decision_.took = gateway_.parts().clock.now() - arrived_;
  if (decision_.first_byte == Duration(0)) decision_.first_byte = decision_.took;
  decision_.stored = storing_.result();
  if (draw_.has_value()) decision_.draw = draw_->number;
  decision_.repeats = repeats_an_earlier_one();
  if (leads_ && decision_.prompt.has_value()) decision_.prompt = prompt_.report();
  if (const std::uint64_t bypasses = gateway_.counts().ended(decision_);
      is_worth_a_line(bypasses)) {
    gateway_.parts().log.info("bypasses", {{"reason", to_string(decision_.reason)},
                                           {"requests", bypasses},
                                           {"why", afterimage::explain(decision_.reason)},
                                           {"remedy", remedy(decision_.reason)}});
  }
  const bool logged = config_->settings.log.requests && gateway_.parts().log.wants(LogLevel::kInfo);
  // Once there is nothing to come of the backend only the log and the trace still read it.
  const bool is_over = found_.has_value() || (subscriber_ != nullptr &&
                                              response().state() == SharedResponse::State::kWhole);
  const bool is_last_use = is_over && !logged && !spans_.is_traced();
  prompt_.recorded(storing_.record(is_last_use ? std::move(decision_) : Decision(decision_)));
  if (logged) log_decision();
}

bool GatewayRequest::repeats_an_earlier_one() {
  if (decision_.outcome != Outcome::kBypass || remedy(decision_.reason).empty()) return false;
  // Without an identity, equal bytes of the same tenant.
  std::string request = asked_.question.has_value()
                            ? asked_.question->scope().key.hex() + asked_.question->text()
                            : asked_.tenant.cache_namespace.text() + "\n" +
                                  to_hex(sha256(std::as_bytes(std::span(*asked_.body))));
  request += asked_.question.has_value() ? 'q' : 'b';
  return gateway_.seen_requests().add(std::as_bytes(std::span(request)));
}

void GatewayRequest::log_decision() {
  gateway_.parts().log.info(
      "request", {{"request_id", decision_.request_id},
                  {"trace_id", decision_.trace_id},
                  {"tenant", decision_.tenant},
                  {"operation", decision_.operation},
                  {"protocol", decision_.protocol},
                  {"model", decision_.model},
                  {"outcome", to_string(decision_.outcome)},
                  {"reason", to_string(decision_.reason)},
                  {"miss", decision_.miss.has_value() ? to_string(*decision_.miss) : ""},
                  {"match_level", decision_.level},
                  {"ignored", list_of(decision_.ignored)},
                  {"prefix", decision_.prompt.has_value() ? header_value(*decision_.prompt) : ""},
                  {"stored", decision_.stored.has_value() ? to_string(*decision_.stored) : ""},
                  {"status", static_cast<std::uint64_t>(decision_.status)},
                  {"took_ms", std::chrono::duration<double, std::milli>(decision_.took).count()}});
}

}  // namespace afterimage
