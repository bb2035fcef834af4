// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// One call of the backend for all requests that ask the same.
#include <algorithm>
#include <iterator>
#include <utility>

#include "afterimage/identity.h"
#include "caches/language/same_answer.h"
#include "gateway/proxy/gateway_request.h"
#include "gateway/proxy/retry_after.h"
#include "gateway/proxy/upstream.h"
#include "runtime/reuse/document_pages.h"

namespace afterimage {
namespace {

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

}  // namespace

std::string GatewayRequest::coalescing_key() const {
  const ScopeId& scope = question_->scope();
  std::string key;
  key.reserve(question_->text().size() + 68);
  const auto add = [&](const auto& bytes) {
    key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  add(scope.space.bytes);
  add(scope.key.bytes);
  key += api_->stream ? 's' : 'w';
  key += api_->include_usage ? 'u' : '-';
  key += directives_.no_cache ? 'n' : '-';
  // Joining takes less time than asking, which would tell that somebody else asks the same.
  if (hides_hits()) key.append(std::to_string(tenant_.name.size())).append(":" + tenant_.name);
  return key + question_->text();
}

GatewayRequest::Next GatewayRequest::on_joining() {
  const std::string key = coalescing_key();
  if (restarts_ >= kMaxRestarts) {  // a call of its own cannot be interrupted by others
    subscribe(start_response("")->join(), /*leads=*/true);
    return RequestStage::kWaitingForBackend;
  }
  // A refresh wants a new answer, whatever has completed meanwhile.
  const auto before = directives_.no_cache ? std::nullopt : std::optional(completed_before_);
  auto joined =
      gateway_.responses().join_or_start(key, before, [&] { return start_response(key); });
  if (joined.subscriber == nullptr) return RequestStage::kLookingUp;
  subscribe(std::move(joined.subscriber), joined.leads);
  return leads_ && uses_leases() ? RequestStage::kLeasing : RequestStage::kWaitingForBackend;
}

/// `key` is where other requests find it; empty: no other request joins.
std::shared_ptr<SharedResponse> GatewayRequest::start_response(const std::string& key) {
  const AnswerSettings& settings = config_->settings.answers;
  return std::make_shared<SharedResponse>(SharedResponse::Options{
      .record = operation_,
      .max_record = settings.max_answer,
      .shared = true,
      .counts_tokens = tenant_.account != nullptr || trace_ != nullptr,
      .completed =
          [self = shared_from_this(), key](const SharedResponse& response,
                                           Result<ApiRecord> record) {
            self->keep(response, std::move(record), std::exchange(self->lease_, nullptr));
            if (!key.empty()) self->gateway_.responses().remove(key, &response);
          },
      .finish_abandoned = settings.finish_abandoned});
}

void GatewayRequest::start_forwarding() {
  const auto response = std::make_shared<SharedResponse>(SharedResponse::Options{
      .record = std::nullopt,
      .max_record = {},
      .shared = false,
      .counts_tokens = tenant_.account != nullptr || trace_ != nullptr,
      .completed = [self = shared_from_this()](
                       const SharedResponse& done,
                       const Result<ApiRecord>& record) { self->keep(done, record, nullptr); },
      .finish_abandoned = false});
  subscribe(response->join(), /*leads=*/true);
}

void GatewayRequest::subscribe(std::shared_ptr<SharedResponse::Subscriber> subscriber, bool leads) {
  leads_ = leads;
  subscriber_ = std::move(subscriber);
  {
    const MutexLock lock(mutex_);
    leaving_subscriber_ = subscriber_;
  }
  if (has_left()) subscriber_->leave();
}

void GatewayRequest::unsubscribe() {
  if (subscriber_ == nullptr) return;
  subscriber_->leave();
  {
    const MutexLock lock(mutex_);
    leaving_subscriber_.reset();
  }
  subscriber_.reset();
}

GatewayRequest::Next GatewayRequest::on_waiting_for_backend() {
  const std::shared_ptr<SharedResponse> waited = response().shared_from_this();
  const bool leads = leads_;
  auto unfolded = leads && may_reuse_ ? question_ : std::nullopt;
  // From here on the request may be resumed on another thread.
  waited->when_ready([self = shared_from_this()] { self->response_is_ready(); });
  if (leads) ask_backend(waited);
  if (unfolded.has_value()) fold_ahead(*std::move(unfolded));
  return std::nullopt;
}

/// The forms under which the answer is stored are made while the backend is at work: once the call
/// has left, since its thread sends it before it comes to this.
void GatewayRequest::fold_ahead(Question question) {
  IoThreads& threads = gateway_.parts().threads;
  threads.post(threads.here_or_next(),
               [self = shared_from_this(), question = std::move(question)]() mutable {
                 for (const MatchLevel rung : kMatchLevels) static_cast<void>(question.form(rung));
                 const MutexLock lock(self->mutex_);
                 self->folded_ = std::move(question);
               });
}

/// Those of the client, and of what its entries are also made from.
std::vector<std::string> GatewayRequest::tags_for_backend() const {
  std::vector<std::string> tags = directives_.tags;
  if (api_ == nullptr) return tags;
  std::vector<std::string> attached = attached_tags();
  // An entry has so many labels: erasing any media item erases it then.
  if (tags.size() + attached.size() > EntryLabels::kMaxTags) attached = {kAnyMediaTag};
  std::ranges::move(attached, std::back_inserter(tags));
  return tags;
}

BackendRequest GatewayRequest::backend_request() const {
  HttpHeaders headers = request_.headers;
  headers.set("X-Request-Id", decision_.request_id);
  if (trace_ != nullptr) trace_->pass_on(headers, call_span_);
  if (tenant_.key_is_ours) remove_keys(headers);
  return {.method = request_.method,
          .target = request_.target,
          .headers = std::move(headers),
          .body = body_,
          .operation = operation_,
          .request = api_,
          .tenant = tenant_.cache_namespace,
          .tenant_name = tenant_.owner,
          .space = space_,
          .hints = directives_.hints,
          .tags = tags_for_backend()};
}

void GatewayRequest::ask_backend(const std::shared_ptr<SharedResponse>& response) {
  gateway_.responses().remember(response);
  asked_at_ = gateway_.parts().clock.now();
  if (trace_ != nullptr) call_span_ = trace_->new_span();
  response->controlled_by(gateway_.parts().backend.ask(backend_request(), response));
}

void GatewayRequest::response_is_ready() {
  if (has_left()) return resume(RequestStage::kResponding);
  if (response().state() == SharedResponse::State::kAbandoned) {
    unsubscribe();
    answered_elsewhere_ = true;
    return resume(RequestStage::kLookingUp);
  }
  if (!may_retry()) return resume(RequestStage::kResponding);
  unsubscribe();
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
  if (has_left()) {
    decision_.status = 499;
    decision_.reason = "client-left";
    return RequestStage::kDone;
  }
  return response().state() == SharedResponse::State::kFailed ? respond_with_failure()
                                                              : respond_from_backend();
}

GatewayRequest::Next GatewayRequest::respond_with_failure() {
  decision_.route = response().route();
  const HttpFailure& failure = response().failure();
  const bool is_late = failure.error.code == ErrorCode::kTimeout;
  decision_.reason = is_late ? "upstream-timeout" : "upstream-failed";
  if (failure.error.code == ErrorCode::kLimitExceeded) {
    return refuse({503, failure.error.message, "server_error", "overloaded"});
  }
  return refuse({.status = is_late ? 504U : 502U,
                 .message = failure.error.message,
                 .type = "upstream_error",
                 .code = is_late ? "upstream_timeout" : "upstream_failed",
                 .is_final = is_final(failure)});
}

GatewayRequest::Next GatewayRequest::respond_from_backend() {
  const SharedResponse& from = response();
  decision_.route = from.route();
  const bool is_whole = from.state() == SharedResponse::State::kWhole;
  CacheReport report{.outcome = CacheOutcome::kMiss, .detail = decision_.reason};
  if (decision_.outcome == Outcome::kBypass) report.outcome = CacheOutcome::kBypass;
  if (decision_.outcome == Outcome::kRefresh) report.outcome = CacheOutcome::kRefresh;
  if (is_whole) {  // the headers of a stream leave before it is known
    const MutexLock lock(mutex_);
    report.stored = leads_ && stored_ == StoreResult::kStored;
  }
  if (!leads_ && decision_.outcome == Outcome::kMiss) {
    decision_.outcome = Outcome::kJoined;
    decision_.rung = to_string(MatchLevel::kExact);
    decision_.reason = "joined";
    decision_.why = "another request was asking the same";
    report = {.outcome = CacheOutcome::kJoined, .detail = "joined", .stored = false};
  }
  decision_.first_byte = gateway_.parts().clock.now() - arrived_;
  HttpHeaders headers = end_to_end(from.headers());
  if (from.status() >= 400) limit_retry_after(headers, gateway_.keys().now());
  if (!leads_) headers.remove("set-cookie");  // it is the other client's
  // It tells what others have sent.
  if (hides_hits()) headers.remove("x-afterimage-route");
  if (is_whole) {
    reply(from.status(), std::move(headers), from.whole(), report);
    return RequestStage::kDone;
  }
  const auto last = [self = shared_from_this(), subscriber = subscriber_](bool is_slow) {
    if (is_slow) {
      self->decision_.reason = "slow-reader";
    } else if (!subscriber->response().complete()) {
      self->decision_.reason = "cut-short";
    }
    self->resume(RequestStage::kDone);
  };
  reply(from.status(), std::move(headers), SharedResponse::body(subscriber_, last), report,
        /*lasts=*/true);
  return std::nullopt;
}

/// Of hits by other words, a sample is asked all the same: so it is measured how often they are
/// wrong.
void GatewayRequest::verify_later(const AnswerLookup& found, const ApiRecord& record) {
  const AnswerSettings& settings = config_->settings.answers;
  if (!gateway_.chance(settings.verify_sample_rate)) return;
  const Question answered(question_->scope(), found.steps.back().candidate);
  const auto similar = found.by_similarity ? similar_ : std::nullopt;
  const auto compare = [&gateway = gateway_, said = record.text(), answered, similar,
                        question = *question_](const SharedResponse& /*response*/,
                                               const Result<ApiRecord>& again) {
    if (!again.has_value()) return;
    const bool same = similar.has_value()
                          ? gateway.verify_similar(question, *similar, again->text())
                          : same_answer(said, again->text()) == SameAnswer::kSame;
    if (!same) gateway.forget(answered);
    gateway.counts().compared(same);
  };
  const auto response =
      std::make_shared<SharedResponse>(SharedResponse::Options{.record = operation_,
                                                               .max_record = settings.max_answer,
                                                               .shared = true,
                                                               .completed = compare,
                                                               .finish_abandoned = true});
  response->controlled_by(gateway_.parts().backend.ask(backend_request(), response));
}

}  // namespace afterimage
