// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/gateway_request.h"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "afterimage/check.h"
#include "afterimage/identity.h"
#include "foundation/crypto/sha256.h"
#include "foundation/text/json_text.h"
#include "gateway/openai/attached_bytes.h"
#include "gateway/protocol/chat_files.h"
#include "gateway/proxy/media_fetch.h"
#include "gateway/proxy/retry_after.h"

namespace afterimage {
namespace {

/// Larger bodies are read on threads of their own: a picture takes milliseconds.
constexpr std::size_t kReadHere = 64 * 1024;
constexpr std::size_t kShown = 200;

/// Whether a body may become a large one: it names files, or a conversation.
bool names_stored_content(std::string_view body) {
  return body.contains(R"("file_id")") || body.contains(R"("previous_response_id")");
}

/// The client's id of its request, if it may stand in a header and a log.
std::optional<std::string> given_id(const HttpHeaders& headers) {
  const auto id = headers.find("x-request-id");
  if (!id.has_value() || id->empty() || id->size() > 128) return std::nullopt;
  const bool visible = std::ranges::all_of(*id, [](char c) { return c > ' ' && c < 0x7F; });
  return visible ? std::optional(std::string(*id)) : std::nullopt;
}

/// The beginning, without half a character at the end.
std::string shown(std::string_view text) {
  if (text.size() <= kShown) return std::string(text);
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "…";
}

/// Of a hit as well: its answer was no more constrained.
void add_ignored(HttpHeaders& headers, const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  if (!list.empty()) headers.set("X-Afterimage-Ignored", list);
}

/// Once for both who need the digests: the answer's identity and the built-in engine.
void hash_media(std::vector<ApiMedia>& media) {
  for (ApiMedia& item : media) {
    if (item.bytes == nullptr || item.digest.has_value()) continue;
    item.digest = content_digest({.modality = item.modality, .files = {item.bytes}});
  }
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
      operation_(operation),
      request_(std::move(request)),
      responder_(std::move(responder)),
      translation_(std::move(translation)),
      arrived_(gateway.parts().clock.now()),
      body_(request_.body) {
  decision_.at = gateway.parts().ids.clock().now();
  decision_.operation = operation.has_value() ? to_string(*operation) : "other";
  if (translation_ != nullptr) decision_.protocol = translation_->name();
  decision_.request_id = given_id(request_.headers).value_or("");
  if (decision_.request_id.empty()) decision_.request_id = gateway.parts().ids.request();
  begin_trace();
}

void GatewayRequest::advance(RequestStage next) {
  AFI_CHECK(may_follow(stage_, next));
  if (trace_ != nullptr) trace_stage(next);
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
  responder_->on_disconnect([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->client_left();
  });
  if (const Next next = handle(stage_)) resume(*next);
}

GatewayRequest::Next GatewayRequest::on_received() {
  if (const auto refusal = admit(Counting::kCounts)) return refuse(*refusal);
  if (!operation_.has_value()) {
    bypass("not-cacheable", "only chat, completions and embeddings are reused");
    if (const auto refusal = check_price()) return refuse(*refusal);
    return forward();
  }
  if (request_.body->size() <= kReadHere && !names_stored_content(*request_.body)) {
    return RequestStage::kReading;
  }
  const bool posted = gateway_.readers().post([self = shared_from_this()] {
    self->on_worker([&] { self->resume(RequestStage::kReading); });
  });
  if (posted) return std::nullopt;
  return refuse(
      {503, "too many large requests are waiting; try again soon", "server_error", "overloaded"});
}

std::optional<GatewayRequest::Refusal> GatewayRequest::admit(Counting counting) {
  const HttpHeaders& headers = request_.headers;
  // The body's cache object is not known at first; with its namespace this is done again.
  auto directives = cache_directives(headers, api_ == nullptr ? std::nullopt : api_->cache);
  if (!directives.has_value()) {
    return Refusal{400, directives.error().message, "invalid_request_error", "invalid_header"};
  }
  directives_ = *std::move(directives);
  auto tenant = identify(*config_->tenants, headers, directives_.name_space, counting);
  if (!tenant.has_value()) {
    decision_.tenant = "refused";
    const DenialWords words = words_of(tenant.error());
    return Refusal{words.status, tenant.error().message, words.type, words.code,
                   tenant.error().retry_after};
  }
  tenant_ = *std::move(tenant);
  decision_.tenant = tenant_.name;
  decision_.cache_namespace = tenant_.cache_namespace.text();
  return std::nullopt;
}

GatewayRequest::Next GatewayRequest::on_reading() {
  if (const auto refusal = translate_body()) return refuse(*refusal);
  const auto read = read_body();
  if (!read.has_value()) {
    if (translation_ != nullptr || !gateway_.parts().backend.takes_anything()) {
      return refuse({400, read.error().message, "invalid_request_error", "invalid_body"});
    }
    bypass("unreadable", read.error().message);
    if (const auto refusal = check_price()) return refuse(*refusal);
    return forward();
  }
  if (read->has_value()) return refuse(**read);
  if (const auto refusal = check_price()) return refuse(*refusal);
  const bool all_here =
      std::ranges::all_of(api_->media, [](const ApiMedia& item) { return item.bytes != nullptr; });
  if (all_here) return RequestStage::kLookingUp;
  const auto may = may_fetch(api_->media, config_->settings.media);
  if (may.has_value()) return RequestStage::kFetchingMedia;
  if (!gateway_.parts().backend.takes_anything()) {
    return refuse({400, may.error().message, "invalid_request_error", "media_not_allowed"});
  }
  bypass("media-by-address",
         "media by address can only be identified once they are fetched: " + may.error().message);
  return forward();
}

/// A file within a request of another API may be a text of the chat.
void GatewayRequest::note_texts(std::string_view body) {
  if (!body.contains(R"("document")") && !body.contains(R"("input_file")")) return;
  JsonReader reader;
  const auto root = reader.read(body);
  if (root.has_value()) add_attached(*root, texts_);
}

std::optional<GatewayRequest::Refusal> GatewayRequest::translate_body() {
  const FileLookup files = [this, find = gateway_.files_of(tenant_)](std::string_view id) {
    auto file = find(id);
    if (file.has_value()) texts_.push_back({sha256(std::as_bytes(std::span(*file->bytes)))});
    return file;
  };
  const auto translate = [&]() -> Result<std::optional<std::string>> {
    if (translation_ != nullptr) {
      return translation_->request(*request_.body, {.tenant = tenant_.id, .files = files});
    }
    const bool may_name_files = operation_ == ApiOperation::kChat && gateway_.files().is_enabled();
    if (!may_name_files) return std::nullopt;
    return with_uploaded_files(*request_.body, files);
  };
  auto chat = translate();
  if (chat.has_value()) {
    const Bytes most = config_->settings.limits.body;
    if (chat->has_value() && Bytes((*chat)->size()) > most) {
      return Refusal{413,
                     "with its files and earlier messages the request is larger than limits.body",
                     "invalid_request_error", "request_too_large"};
    }
    if (translation_ != nullptr) note_texts(*request_.body);
    if (chat->has_value()) {
      body_ = request_.body = std::make_shared<const std::string>(**std::move(chat));
    }
    return std::nullopt;
  }
  const Error& error = chat.error();
  if (error.code == ErrorCode::kLimitExceeded) {
    return Refusal{413, error.message, "invalid_request_error", "request_too_large"};
  }
  if (error.code == ErrorCode::kNotFound) {
    return Refusal{404, error.message, "invalid_request_error", "not_found"};
  }
  return Refusal{400, error.message, "invalid_request_error",
                 error.code == ErrorCode::kUnsupported ? "unsupported" : "invalid_body"};
}

Result<std::optional<GatewayRequest::Refusal>> GatewayRequest::read_body() {
  const ApiReader reader =
      gateway_.parts().backend.takes_anything() ? ApiReader::kOtherServer : ApiReader::kEngine;
  AFI_TRY(ApiRequest read, read_api_request(*operation_, *request_.body, reader));
  if (read.model.empty()) read.model = gateway_.parts().backend.name();
  hash_media(read.media);
  api_ = std::make_shared<const ApiRequest>(std::move(read));
  decision_.model = api_->model;
  decision_.question = shown(api_->question);
  if (!api_->cache.has_value()) return std::nullopt;
  const std::string before = directives_.name_space;
  auto directives = cache_directives(request_.headers, api_->cache);
  if (!directives.has_value()) {
    return Refusal{400, directives.error().message, "invalid_request_error",
                   "invalid_cache_directives"};
  }
  directives_ = *std::move(directives);
  return directives_.name_space == before ? std::nullopt : admit(Counting::kDoesNotCount);
}

GatewayRequest::Next GatewayRequest::on_fetching_media() {
  IoThreads& threads = gateway_.parts().threads;
  threads.post(threads.here_or_next(), [self = shared_from_this()] {
    self->gateway_.media().fetch(
        self->tenant_.id, self->api_->media, self->config_->settings.media,
        [self](Result<std::vector<ApiMedia>> fetched) { self->media_fetched(std::move(fetched)); });
  });
  return std::nullopt;
}

void GatewayRequest::media_fetched(Result<std::vector<ApiMedia>> fetched) {
  if (!fetched.has_value()) {
    refuse({400, fetched.error().message, "invalid_request_error", "media_not_fetched"});
    return resume(RequestStage::kDone);
  }
  // The backend gets what was identified, and not what the address holds by then.
  body_ = std::make_shared<const std::string>(with_fetched_media(*request_.body, *fetched));
  auto with = std::make_shared<ApiRequest>(*api_);
  with->media = *std::move(fetched);
  hash_media(with->media);
  api_ = std::move(with);
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
    refuse({500, "an error of the gateway; its log has the reason", "server_error", "internal"});
    resume(RequestStage::kDone);
  }
}

GatewayRequest::Next GatewayRequest::forward() {
  if (directives_.only_if_cached && operation_.has_value()) {
    return refuse({504, "this is not reused: " + decision_.why, "cache_miss", "only_if_cached"});
  }
  start_forwarding();
  return RequestStage::kWaitingForBackend;
}

GatewayRequest::Next GatewayRequest::on_done() {
  charge_joined();
  unsubscribe();
  record_decision();
  end_trace();
  return std::nullopt;
}

void GatewayRequest::bypass(std::string_view reason, std::string why) {
  decision_.outcome = Outcome::kBypass;
  decision_.reason = reason;
  decision_.why = std::move(why);
}

GatewayRequest::Next GatewayRequest::refuse(const Refusal& refusal) {
  decision_.outcome = Outcome::kError;
  if (decision_.reason.empty()) decision_.reason = refusal.code;
  decision_.why = refusal.message;
  HttpReply made = error_reply(refusal.status, refusal.message, refusal.type, refusal.code);
  if (refusal.status == 401) made.headers.add("WWW-Authenticate", "Bearer");
  add_retry_after(made.headers, refusal.retry_after);
  if (refusal.is_final) made.headers.add(std::string(kShouldRetry), "false");
  reply(refusal.status, std::move(made.headers), std::move(made.body),
        {.outcome = CacheOutcome::kBypass, .detail = decision_.reason});
  return RequestStage::kDone;
}

void GatewayRequest::reply(unsigned status, HttpHeaders headers, HttpBody body,
                           const CacheReport& report, bool lasts) {
  decision_.status = status;
  if (!hides_hits()) add_cache_headers(headers, report);
  if (api_ != nullptr && status < 400)
    add_ignored(headers, gateway_.parts().backend.ignored(*api_));
  headers.set("X-Request-Id", decision_.request_id);
  if (!responder_.has_value()) return;
  HttpReply made{.status = status, .headers = std::move(headers), .body = std::move(body)};
  if (translation_ != nullptr) {
    made = translated(std::move(made), translation_, decision_.request_id);
    decision_.status = made.status;
  }
  // A client that has read a complete body finds its decision.
  if (!lasts) record_decision();
  responder_->reply(std::move(made));
}

void GatewayRequest::record_decision() {
  if (std::exchange(recorded_, true) || !responder_.has_value()) return;
  if (may_reuse_ && question_.has_value()) {
    Answered answered{.asked = *question_, .stored_as = question_->text()};
    if (found_.has_value()) answered.stored_as = found_->lookup.steps.back().candidate;
    if (found_.has_value() && found_->lookup.by_similarity) answered.similar = similar_;
    decision_.answered = std::make_shared<const Answered>(std::move(answered));
  }
  decision_.took = gateway_.parts().clock.now() - arrived_;
  if (decision_.first_byte == Duration(0)) decision_.first_byte = decision_.took;
  gateway_.counts().ended(decision_);
  Log& log = gateway_.parts().log;
  const bool logged = config_->settings.log.requests && log.wants(LogLevel::kInfo);
  // After a hit only the log and the trace still read it; keep() needs other decisions.
  const bool is_last_use = found_.has_value() && !logged && trace_ == nullptr;
  {
    const MutexLock lock(mutex_);
    decision_.stored = stored_;
    decided_as_ = gateway_.decisions().add(is_last_use ? std::move(decision_) : decision_);
  }
  if (!logged) return;
  log.info("request",
           {{"request_id", decision_.request_id},
            {"trace_id", decision_.trace_id},
            {"tenant", decision_.tenant},
            {"operation", decision_.operation},
            {"protocol", decision_.protocol},
            {"model", decision_.model},
            {"outcome", to_string(decision_.outcome)},
            {"reason", decision_.reason},
            {"rung", decision_.rung},
            {"stored", decision_.stored.has_value() ? to_string(*decision_.stored) : ""},
            {"status", static_cast<std::uint64_t>(decision_.status)},
            {"took_ms", std::chrono::duration<double, std::milli>(decision_.took).count()}});
}

bool GatewayRequest::has_left() {
  const MutexLock lock(mutex_);
  return left_;
}

/// A client that leaves takes its part of the response with it, and no other's.
void GatewayRequest::client_left() {
  std::shared_ptr<SharedResponse::Subscriber> subscriber;
  {
    const MutexLock lock(mutex_);
    left_ = true;
    subscriber = leaving_subscriber_;
  }
  if (subscriber != nullptr) subscriber->leave();
}

}  // namespace afterimage
