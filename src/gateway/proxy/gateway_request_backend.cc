// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// One call of the backend for all requests that ask the same.
#include <charconv>
#include <utility>

#include "caches/language/same_answer.h"
#include "gateway/access/cors.h"
#include "gateway/proxy/cache_salt.h"
#include "gateway/proxy/gateway_request.h"
#include "gateway/proxy/retry_after.h"
#include "gateway/proxy/upstream.h"

namespace afterimage {
namespace {

std::optional<std::uint64_t> take_prompt_tokens(HttpHeaders& headers) {
  const std::string said(headers.find(kPromptTokens).value_or(""));
  headers.remove(kPromptTokens);
  std::uint64_t tokens = 0;
  const auto read = std::from_chars(said.data(), said.data() + said.size(), tokens);
  return read.ec == std::errc() ? std::optional(tokens) : std::nullopt;
}

/// A refusal that says something of who asked, or of this moment: another request may fare better.
bool may_fare_better(unsigned status) {
  return status == 401 || status == 403 || status == 408 || status == 429 || status >= 500;
}

/// The server had the request when its connection ended: who asks again may end the server again.
bool is_final(const HttpFailure& failure) {
  const bool had_it =
      failure.stage == HttpStage::kUnanswered || failure.stage == HttpStage::kBroken;
  return had_it && failure.error.code != ErrorCode::kTimeout;
}

/// A batch is stored as its inputs, each of which may have this size.
Bytes largest_record(Bytes max_answer, std::size_t inputs) {
  constexpr std::uint64_t kGathered = std::uint64_t{16} * 1024 * 1024;
  const std::uint64_t one = max_answer.value();
  if (inputs < 2 || one >= kGathered) return max_answer;
  return Bytes(one > kGathered / inputs ? kGathered : one * inputs);
}

constexpr std::size_t kAddedHeaders = 8;  // at most, to most requests and responses

/// Longer prompts are compared on threads of their own.
constexpr std::size_t kComparedHere = 64UL * 1024;
/// Until a call has reached a server of this machine, which then computes.
constexpr Duration kSettled = std::chrono::microseconds(250);

}  // namespace

GatewayRequest::Next GatewayRequest::on_joining() {
  const JoiningKey key = joining_key();
  if (restarts_ >= kMaxRestarts || key.is_empty()) {  // of its own: not interrupted by others
    if (draw_.has_value()) gateway_.draws().drop(*std::exchange(draw_, std::nullopt));
    subscribe(start_response({})->join(), /*leads=*/true);
    return RequestStage::kWaitingForBackend;
  }
  // A refresh wants a new answer, whatever has completed meanwhile.
  const auto before = asked_.directives.no_cache ? std::nullopt : std::optional(completed_before_);
  auto joined =
      gateway_.responses().join_or_start(key, before, [&] { return start_response(key); });
  if (joined.subscriber == nullptr) return RequestStage::kLookingUp;
  subscribe(std::move(joined.subscriber), joined.leads);
  return leads_ && uses_leases() ? RequestStage::kLeasing : RequestStage::kWaitingForBackend;
}

/// Requests with this key share one response; empty: it has one of its own. Of a sampled request those
/// that have claimed the same draw. One that will not be kept is not shared: who comes while it is on its
/// way would get a long one more often than a short one.
JoiningKey GatewayRequest::joining_key() const {
  if (!terms_->draws) return coalescing_key(asked_, config_->settings.answers);
  return draw_.has_value() ? JoiningKey("draw " + std::to_string(draw_->serial)) : JoiningKey();
}

/// `key` is where other requests find it; empty: no other request joins.
std::shared_ptr<SharedResponse> GatewayRequest::start_response(JoiningKey key) {
  const AnswerSettings& settings = config_->settings.answers;
  return std::make_shared<SharedResponse>(SharedResponse::Options{
      .record = asked_.operation,
      .max_record = largest_record(settings.max_answer, asked_.inputs.size()),
      .shared = true,
      .counts_tokens = counts_tokens(),
      .has_end = generates_text(*asked_.operation),
      .completed =
          [self = shared_from_this(), key = std::move(key)](const SharedResponse& response,
                                                            Result<ApiRecord> record) {
            self->end_call(response, std::move(record), std::exchange(self->lease_, nullptr));
            if (!key.is_empty()) self->gateway_.responses().remove(key, &response);
          },
      // Clients leave long answers sooner than short ones: a draw that ended with them would leave the
      // short ones to others.
      .finish_abandoned = settings.finish_abandoned || draw_.has_value()});
}

void GatewayRequest::start_forwarding() {
  const auto response = std::make_shared<SharedResponse>(SharedResponse::Options{
      .record = std::nullopt,
      .max_record = {},
      .shared = false,
      .counts_tokens = counts_tokens(),
      .has_end = asked_.operation.has_value() && generates_text(*asked_.operation),
      .completed = [self = shared_from_this()](
                       const SharedResponse& done,
                       const Result<ApiRecord>& record) { self->end_call(done, record, nullptr); },
      .finish_abandoned = false});
  subscribe(response->join(), /*leads=*/true);
}

void GatewayRequest::end_call(const SharedResponse& response, Result<ApiRecord> record,
                              std::shared_ptr<Lease> lease) {
  Counts& counts = gateway_.counts();
  spans_.end_call(asked_, response, record);
  usage().charge_call(response, record);
  prompt_.ended(response);
  if (response.has_failed()) uncount();  // before anybody reads the end, and asks again
  if (!record.has_value() && response.status() == 0) {
    counts.upstream_failed(to_string(record.error().code));
    if (record.error().code == ErrorCode::kUnavailable) gateway_.server_is_gone();
  } else {
    counts.upstream_answered(response.status());
    if (lacks_record(record) && response.status() == 200) counts.upstream_failed("not_recorded");
  }
  if (!terms_.has_value()) return;
  storing_.keep({.response = response,
                 .record = std::move(record),
                 .lease = std::move(lease),
                 .took = gateway_.parts().clock.now() - spans_.call_began(),
                 .similar = similar_,
                 .request_id = decision_.request_id,
                 .draw = draw_});
}

void GatewayRequest::subscribe(std::shared_ptr<SharedResponse::Subscriber> subscriber, bool leads) {
  leads_ = leads;
  subscriber_ = std::move(subscriber);
  client_.follow(subscriber_, leaving());
}

/// A client that leaves before anything of a draw was sent to it has not had it.
std::function<void()> GatewayRequest::leaving() const {
  if (!draw_.has_value()) return nullptr;
  return [&draws = gateway_.draws(), draw = *draw_, who = requester_of(asked_, request_),
          waited = response().shared_from_this()] {
    if (waited->state() == SharedResponse::State::kWaiting) draws.leave(draw, who);
  };
}

void GatewayRequest::unsubscribe() {
  if (subscriber_ == nullptr) return;
  subscriber_->leave();
  client_.follow(nullptr);
  subscriber_.reset();
}

/// At the end: only then a stream says how many tokens it was.
void GatewayRequest::charge_joined() const {
  const bool joined = subscriber_ != nullptr && !leads_ && decision_.outcome == Outcome::kJoined;
  if (!joined || !usage().is_counted() || response().status() != 200 || response().has_failed()) {
    return;
  }
  const SharedResponse::Usage used = response().usage();
  usage().charge_saved(used.prompt_tokens.value_or(0), used.output_tokens.value_or(0));
}

void GatewayRequest::uncount() {
  if (!uncounted_.test_and_set()) afterimage::uncount(asked_.tenant);
}

GatewayRequest::Next GatewayRequest::on_waiting_for_backend() {
  const std::shared_ptr<SharedResponse> waited = response().shared_from_this();
  const bool leads = leads_;
  // Embeddings have exact matches only.
  const bool folds =
      leads && terms_.has_value() && !terms_->draws && generates_text(*asked_.operation);
  auto unfolded = folds ? asked_.question : std::nullopt;
  // From here on the request may be resumed on another thread.
  waited->when_ready([self = shared_from_this()] { self->response_is_ready(); });
  if (leads) ask_backend(waited);
  if (leads) work_meanwhile(std::move(unfolded));
  return std::nullopt;
}

/// While the backend is at work: once the call has reached it. A processor that is busy right after it has sent a
/// call may delay the other side.
void GatewayRequest::work_meanwhile(std::optional<Question> unfolded) {
  const bool compares = prompt_.applies();
  if (!unfolded.has_value() && !compares) return;
  const bool is_long = compares && asked_.body->size() > kComparedHere;
  IoThreads& threads = gateway_.parts().threads;
  threads.post_after(
      threads.here_or_next(), kSettled,
      [self = shared_from_this(), compares, is_long, question = std::move(unfolded)]() mutable {
        if (question.has_value() && !self->storing_.result().has_value()) {
          self->storing_.fold(*std::move(question));
        }
        if (compares && !is_long) self->prompt_.compare();
      });
  // If nobody has time for it, the head of the response waits.
  if (is_long) {
    static_cast<void>(
        gateway_.readers().post([self = shared_from_this()] { self->prompt_.compare(); }));
  }
}

BackendRequest GatewayRequest::backend_request() const {
  HttpHeaders headers = request_.headers.copy_with_room(kAddedHeaders);
  headers.set("X-Request-Id", decision_.request_id);
  spans_.pass_on(headers);
  if (asked_.tenant.key_is_ours) remove_keys(headers);
  return {.method = request_.method,
          .target = request_.target,
          .headers = std::move(headers),
          .body = asked_.body,
          .operation = asked_.operation,
          .request = asked_.api,
          .chain = asked_.chain,
          .tenant = asked_.tenant.cache_namespace,
          .tenant_name = asked_.tenant.owner,
          .space = asked_.space,
          .hints = asked_.directives.hints,
          .tags = backend_tags(asked_),
          .salt = cache_salt()};
}

/// Clients without a key and a namespace of their own are one tenant, to whom prompts without a salt belong.
std::string GatewayRequest::cache_salt() const {
  const bool can_prefill =
      (asked_.operation.has_value() && !is_verbatim(*asked_.operation)) ||
      prefills(std::string_view(request_.target).substr(0, request_.target.find('?')));
  if (!can_prefill || !gateway_.parts().backend.may_take_salts()) return {};
  const std::string_view clients = asked_.api == nullptr ? "" : cache_salt_of(*asked_.api);
  const bool is_anonymous = asked_.tenant.id == "anonymous" && asked_.directives.name_space.empty();
  if (is_anonymous && clients.empty()) return {};
  if (clients.empty()) return gateway_.spaces().cache_salt(asked_.tenant.cache_namespace);
  return derived_cache_salt(gateway_.parts().root, asked_.tenant.cache_namespace, clients);
}

void GatewayRequest::ask_backend(const std::shared_ptr<SharedResponse>& response) {
  gateway_.responses().remember(response);
  spans_.begin_call();
  response->controlled_by(gateway_.parts().backend.ask(backend_request(), response));
}

void GatewayRequest::response_is_ready() {
  if (client_.has_left()) return resume(RequestStage::kResponding);
  if (response().state() == SharedResponse::State::kAbandoned) {
    answered_elsewhere_ = response().answered_elsewhere();
    found_by_leader_ = true;
    unsubscribe();
    return resume(RequestStage::kLookingUp);
  }
  if (!completes_batch() && restarts_ < kMaxRestarts) return resume(*ask_for_whole());
  if (!may_retry()) return resume(RequestStage::kResponding);
  unsubscribe();
  // Its draw is gone: it claims another.
  if (terms_->draws) return resume(RequestStage::kLookingUp);
  completed_before_ = gateway_.responses().completed();
  resume(RequestStage::kJoining);
}

/// The request that led failed, for a reason that may be its own: one of the others asks again.
bool GatewayRequest::may_retry() {
  const SharedResponse& from = response();
  const bool failed = from.state() == SharedResponse::State::kFailed;
  const bool cancelled = failed && from.failure().error.code == ErrorCode::kCancelled;
  if (leads_ || (retried_ && !cancelled)) return false;
  if (failed ? is_final(from.failure())
             : from.headers().find(kShouldRetry) == "false" || !may_fare_better(from.status())) {
    return false;
  }
  if (!cancelled) retried_ = true;
  return true;
}

GatewayRequest::Next GatewayRequest::on_responding() {
  if (found_.has_value()) return respond_from_cache();
  if (client_.has_left()) {
    decision_.status = 499;
    decision_.reason = Reason::kClientLeft;
    return RequestStage::kDone;
  }
  return response().state() == SharedResponse::State::kFailed ? respond_with_failure()
                                                              : respond_from_backend();
}

GatewayRequest::Next GatewayRequest::respond_with_failure() {
  decision_.route = response().route();
  const HttpFailure& failure = response().failure();
  const bool is_late = failure.error.code == ErrorCode::kTimeout;
  decision_.reason = is_late ? Reason::kUpstreamTimeout : Reason::kUpstreamFailed;
  if (failure.error.code == ErrorCode::kLimitExceeded) {
    return refuse({503, failure.error.message, "server_error", Reason::kOverloaded});
  }
  return refuse({.status = is_late ? 504U : 502U,
                 .message = failure.error.message,
                 .type = "upstream_error",
                 .code = decision_.reason,
                 .is_final = is_final(failure)});
}

/// What the headers say of the cache's part in it.
CacheReport GatewayRequest::report_of_backend() {
  if (!leads_ && decision_.outcome == Outcome::kMiss) {
    decide(Outcome::kJoined, Reason::kJoined);
    decision_.level = to_string(MatchLevel::kExact);
  }
  CacheReport report{.outcome = CacheOutcome::kMiss,
                     .detail = std::string(to_string(decision_.reason))};
  if (decision_.outcome == Outcome::kBypass) report.outcome = CacheOutcome::kBypass;
  if (decision_.outcome == Outcome::kRefresh) report.outcome = CacheOutcome::kRefresh;
  if (decision_.outcome == Outcome::kJoined) report.outcome = CacheOutcome::kJoined;
  if (!leads_) return report;
  if (response().state() == SharedResponse::State::kWhole) {
    const std::optional<StoreResult> result = storing_.result();
    report.stored = result == StoreResult::kStored;
    if (result.has_value() && !report.stored) report.not_stored = to_string(*result);
    return report;
  }
  // The headers of a stream leave before anything else is known.
  PressureController* const pressure = gateway_.parts().reuse.pressure();
  if (pressure != nullptr && pressure->stats().mode == PressureMode::kEmergency) {
    report.not_stored = to_string(StoreResult::kBlocked);
  }
  return report;
}

GatewayRequest::Next GatewayRequest::respond_from_backend() {
  const SharedResponse& from = response();
  decision_.route = from.route();
  const CacheReport report = report_of_backend();
  decision_.first_byte = gateway_.parts().clock.now() - arrived_;
  HttpHeaders headers = end_to_end(from.headers().copy_with_room(kAddedHeaders));
  if (const auto prompt = take_prompt_tokens(headers);
      prompt.has_value() && translation_ != nullptr) {
    translation_->know_prompt({.prompt = *prompt});
  }
  remove_cors_headers(headers);  // a hit has none of the upstream's either
  if (from.status() == 429) add_missing_retry_after(headers);
  if (from.status() >= 400) limit_retry_after(headers, gateway_.keys().now());
  if (!leads_) headers.remove("set-cookie");  // it is the other client's
  // It tells what others have sent.
  if (hides_hits()) headers.remove("x-afterimage-route");
  say_prefix(headers);
  const bool lacks_inputs = batch_ != nullptr && batch_->is_rest && from.status() == 200;
  if (lacks_inputs && !batch_->answer.has_value()) {
    return refuse({.status = 502,
                   .message = "the model's server did not answer with a vector for each input",
                   .type = "upstream_error",
                   .code = Reason::kUpstreamFailed});
  }
  if (from.state() != SharedResponse::State::kWhole) {
    return stream_from_backend(std::move(headers), report);
  }
  if (auto batch = whole_batch(headers)) {
    reply(200, std::move(headers), *std::move(batch), report);
  } else {
    reply(from.status(), std::move(headers), from.whole(), report);
  }
  return RequestStage::kDone;
}

/// Of the request that was sent: those that joined it have the same prompt.
void GatewayRequest::say_prefix(HttpHeaders& headers) {
  headers.remove(kPrefixHeader);  // of a gateway behind this one
  if (!leads_ || response().status() != 200) return;
  decision_.prompt = prompt_.report();
  prompt_.taken(response());
  if (!decision_.prompt.has_value() || hides_hits()) return;
  headers.set(kPrefixHeader, header_value(*decision_.prompt));
}

GatewayRequest::Next GatewayRequest::stream_from_backend(HttpHeaders headers,
                                                         const CacheReport& report) {
  const auto last = [self = shared_from_this(), subscriber = subscriber_](bool is_slow) {
    if (is_slow) {
      self->decision_.reason = Reason::kSlowReader;
    } else if (!subscriber->response().complete()) {
      self->decision_.reason = Reason::kCutShort;
    }
    self->resume(RequestStage::kDone);
  };
  reply(response().status(), std::move(headers), SharedResponse::body(subscriber_, last), report,
        /*lasts=*/true);
  return std::nullopt;
}

/// Of hits by other words, a sample is asked all the same: so it is measured how often they are
/// wrong.
void GatewayRequest::verify_later(const AnswerLookup& found, const ApiRecord& record) {
  const AnswerSettings& settings = config_->settings.answers;
  if (!gateway_.chance(settings.verify_sample_rate)) return;
  const Question answered(asked_.question->scope(), found.steps.back().candidate);
  const auto similar = found.by_similarity ? similar_ : std::nullopt;
  const auto compare = [&gateway = gateway_, said = record.text(), answered, similar,
                        question = *asked_.question](const SharedResponse& /*response*/,
                                                     const Result<ApiRecord>& again) {
    if (!again.has_value()) return;
    const bool same = similar.has_value()
                          ? gateway.verify_similar(question, *similar, again->text())
                          : same_answer(said, again->text()) == SameAnswer::kSame;
    if (!same) gateway.forget(answered);
    gateway.counts().compared(same);
  };
  const auto response =
      std::make_shared<SharedResponse>(SharedResponse::Options{.record = asked_.operation,
                                                               .max_record = settings.max_answer,
                                                               .shared = true,
                                                               .completed = compare,
                                                               .finish_abandoned = true});
  response->controlled_by(gateway_.parts().backend.ask(backend_request(), response));
}

}  // namespace afterimage
