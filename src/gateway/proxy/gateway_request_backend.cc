// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// A request's way once nothing that is kept serves it: one asks for all, and what is said is kept.
#include <algorithm>
#include <utility>

#include "caches/language/same_answer.h"
#include "gateway/proxy/gateway_request.h"
#include "gateway/proxy/upstream.h"

namespace afterimage {
namespace {

/// An answer of the model's server that says something of who asked, or of this moment: another who
/// asks may fare better.
bool may_fare_better(unsigned status) {
  return status == 401 || status == 403 || status == 408 || status == 429 || status >= 500;
}

}  // namespace

std::string GatewayRequest::broadcast_key() const {
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
  // Who joins another's answer has it sooner than who asks.
  if (hides_hits()) key.append(std::to_string(tenant_.name.size())).append(":" + tenant_.name);
  return key + question_->text();
}

void GatewayRequest::join_or_start() {
  const std::string key = broadcast_key();
  std::shared_ptr<SharedResponse> started;
  const auto boarded = gateway_.broadcasts().join_or_start(key, landed_, [&] {
    started = start(key);
    return started;
  });
  if (boarded.seat == nullptr) {
    if (directives_.no_cache) {
      landed_ = gateway_.broadcasts().landed();
      return join_or_start();
    }
    return look();
  }
  wait_for(boarded.seat, boarded.leads);
  if (started != nullptr) ask_in_turn(started);
}

std::shared_ptr<SharedResponse> GatewayRequest::start(const std::string& key) {
  const AnswerSettings& settings = config_->settings.answers;
  const auto turn = std::make_shared<std::shared_ptr<Lease>>();
  turn_ = turn;
  return std::make_shared<SharedResponse>(SharedResponse::Options{
      .record = *operation_,
      .max_record = settings.max_answer,
      .shared = true,
      .landed =
          [self = shared_from_this(), key, turn](const SharedResponse& broadcast,
                                                 Result<ApiRecord> record) {
            self->keep(broadcast, std::move(record), std::exchange(*turn, nullptr));
            self->gateway_.broadcasts().remove(key, &broadcast);
          },
      .abandoned = nullptr,
      .finish_abandoned = settings.finish_abandoned});
}

void GatewayRequest::pass_on() {
  if (directives_.only_if_cached && operation_.has_value()) {
    return refuse(504, "this is not reused: " + decision_.why, "cache_miss", "only_if_cached");
  }
  const auto broadcast = std::make_shared<SharedResponse>(SharedResponse::Options{
      .record = std::nullopt,
      .max_record = {},
      .shared = false,
      .landed = [self = shared_from_this()](
                    const SharedResponse& flew,
                    const Result<ApiRecord>& record) { self->keep(flew, record, nullptr); },
      .abandoned = nullptr,
      .finish_abandoned = false});
  wait_for(broadcast->join(), true);
  ask(broadcast);
}

BackendRequest GatewayRequest::asked() const {
  HttpHeaders headers = request_.headers;
  headers.set("X-Request-Id", decision_.request_id);
  return {.method = request_.method,
          .target = request_.target,
          .headers = std::move(headers),
          .body = body_,
          .operation = operation_,
          .request = api_,
          .tenant = tenant_.keeps_in};
}

void GatewayRequest::ask(const std::shared_ptr<SharedResponse>& broadcast) {
  gateway_.broadcasts().remember(broadcast);
  asked_at_ = gateway_.parts().clock.now();
  broadcast->controlled_by(gateway_.parts().backend.ask(asked(), broadcast));
}

void GatewayRequest::wait_for(const std::shared_ptr<SharedResponse::Subscriber>& seat, bool leads) {
  leads_ = leads;
  {
    const MutexLock lock(leaving_);
    seat_ = seat;
  }
  if (left()) seat->leave();
  seat->broadcast().when_ready([self = shared_from_this(), seat] { self->deliver(seat); });
}

bool GatewayRequest::left() {
  const MutexLock lock(leaving_);
  return left_;
}

/// A client that leaves takes its part of the answer with it, and no other's.
void GatewayRequest::client_left() {
  std::shared_ptr<SharedResponse::Subscriber> seat;
  {
    const MutexLock lock(leaving_);
    left_ = true;
    seat = seat_;
  }
  if (seat != nullptr) seat->leave();
}

/// The one who asked failed, for a reason that may be its own: the next one asks for all the
/// others.
bool GatewayRequest::try_again(SharedResponse::Subscriber& seat) {
  const SharedResponse& broadcast = seat.broadcast();
  const bool failed = broadcast.state() == SharedResponse::State::kFailed;
  const bool cancelled = failed && broadcast.error().code == ErrorCode::kCancelled;
  if (leads_ || (tried_again_ && !cancelled)) return false;
  if (!failed && !may_fare_better(broadcast.status())) return false;
  tried_again_ |= !cancelled;
  seat.leave();
  landed_ = gateway_.broadcasts().landed();
  join_or_start();
  return true;
}

void GatewayRequest::deliver(const std::shared_ptr<SharedResponse::Subscriber>& seat) {
  if (left()) {
    decision_.status = 499;
    decision_.reason = "client-left";
    return over();
  }
  if (seat->broadcast().state() == SharedResponse::State::kCalledOff) return look_again(*seat);
  if (try_again(*seat)) return;
  SharedResponse& broadcast = seat->broadcast();
  if (broadcast.state() == SharedResponse::State::kFailed) {
    const bool late = broadcast.error().message.ends_with("in time");
    decision_.reason = late ? "upstream-timeout" : "upstream-failed";
    return refuse(late ? 504 : 502, broadcast.error().message, "upstream_error",
                  late ? "upstream_timeout" : "upstream_failed");
  }
  CacheReport report{.outcome = CacheOutcome::kMiss, .detail = decision_.reason};
  switch (decision_.outcome) {
    case Outcome::kBypass:
      report.outcome = CacheOutcome::kBypass;
      break;
    case Outcome::kRefresh:
      report.outcome = CacheOutcome::kRefresh;
      break;
    default:
      break;
  }
  if (broadcast.state() == SharedResponse::State::kWhole) {
    // The headers of a stream leave before it is known.
    const MutexLock lock(leaving_);
    report.stored = leads_ && stored_ == StoreResult::kStored;
  }
  if (!leads_ && decision_.outcome == Outcome::kMiss) {
    decision_.outcome = Outcome::kJoined;
    decision_.rung = to_string(TextRung::kExact);
    decision_.reason = "joined";
    decision_.why = "somebody else was asking the same";
    report = {.outcome = CacheOutcome::kJoined, .detail = "joined", .stored = false};
  }
  decision_.first_byte = gateway_.parts().clock.now() - arrived_;
  HttpHeaders headers = end_to_end(broadcast.headers());
  if (!leads_) headers.remove("set-cookie");  // it is the other client's
  if (broadcast.state() == SharedResponse::State::kWhole) {
    reply(broadcast.status(), std::move(headers), broadcast.whole(), report);
    seat->leave();
    return over();
  }
  const auto last = [self = shared_from_this(), seat] {
    if (!seat->broadcast().complete()) self->decision_.reason = "cut-short";
    self->over();
  };
  reply(broadcast.status(), std::move(headers), SharedResponse::body(seat, last), report);
}

std::optional<Duration> GatewayRequest::ttl() const {
  const AnswerSettings& settings = config_->settings.answers;
  const std::optional<Duration> ttl = directives_.ttl.has_value() ? directives_.ttl : settings.ttl;
  if (!settings.max_ttl.has_value()) return ttl;
  return std::min(ttl.value_or(*settings.max_ttl), *settings.max_ttl);
}

/// On the backend's thread, before anybody reads the end: the next request finds the answer.
void GatewayRequest::keep(const SharedResponse& broadcast, Result<ApiRecord> record,
                          std::shared_ptr<Lease> lease) {
  Counts& counts = gateway_.counts();
  const bool failed = !record.has_value() && broadcast.status() == 0;
  if (failed) {
    counts.upstream_failed(to_string(record.error().code));
  } else {
    counts.upstream_answered(broadcast.status());
    if (!record.has_value() && broadcast.status() == 200) counts.upstream_failed("not_recorded");
  }
  if (!may_reuse_) return;
  const std::optional<Duration> lasts = ttl();
  const StoreResult stored = store(broadcast, std::move(record), std::move(lease), lasts);
  AnswerHistory::Entry entry{.result = stored};
  if (lasts.has_value()) entry.expires = gateway_.parts().clock.now() + *lasts;
  gateway_.history().record(*question_, entry, /*replaces=*/!directives_.no_cache);
  set_stored(stored);
}

void GatewayRequest::set_stored(StoreResult stored) {
  if (stored != StoreResult::kStored) gateway_.counts().not_stored(stored);
  const MutexLock lock(leaving_);
  stored_ = stored;
  if (decided_as_ != 0) gateway_.decisions().set_stored(decided_as_, stored);
}

StoreResult GatewayRequest::store(const SharedResponse& broadcast, Result<ApiRecord> record,
                                  std::shared_ptr<Lease> lease, std::optional<Duration> ttl) {
  Log& log = gateway_.parts().log;
  if (!record.has_value()) {
    const StoreResult why = result_without_record(record.error(), broadcast.status());
    if (why == StoreResult::kNotRecorded || why == StoreResult::kTooLarge) {
      log.warn("answer_not_stored", {{"request_id", decision_.request_id},
                                     {"reason", to_string(why)},
                                     {"why", record.error().message}});
    }
    return why;
  }
  if (directives_.no_store) return StoreResult::kNoStore;
  const AnswerSettings& settings = config_->settings.answers;
  const bool limit_is_known = api_->max_tokens.has_value() ||
                              gateway_.parts().backend.default_max_tokens().has_value();
  const StoreResult may = what_may_be_stored(*record, {.tool_calls = settings.tool_calls,
                                                       .cache_truncated = settings.cache_truncated,
                                                       .limit_is_known = limit_is_known});
  if (may != StoreResult::kStored) return may;
  AnswerFacts facts{.cost = gateway_.parts().clock.now() - asked_at_,
                    .ttl = ttl,
                    .tags = directives_.tags,
                    .owner = tenant_.keeps_in,
                    .quota = quota(),
                    .keep_partial = true};
  facts.tags.push_back("model:" + api_->model);
  facts.tags.push_back("tenant:" + tenant_.name);
  for (const DecidedMedia& media : decision_.media) facts.tags.push_back("media:" + media.digest);
  const Answer answer{.text = {},
                      .finish_reason = record->calls_tools() ? "tool_calls" : record->finish_reason(),
                      .model = record->model(),
                      .prompt_tokens = record->prompt_tokens(),
                      .output_tokens = record->output_tokens(),
                      .record = record->serialize()};
  Question question = *question_;
  AnswerArchive* const archive = gateway_.parts().archive;
  const auto before = archive == nullptr ? AnswerArchive::ReadLease() : archive->read_lease();
  const auto kept = archive == nullptr
                        ? gateway_.parts().reuse.answer_cache()->insert(question, answer, facts)
                        : archive->insert_into_cache(question, answer, facts, before);
  if (!kept.has_value()) {
    log.debug("answer_not_stored",
              {{"request_id", decision_.request_id}, {"why", kept.error().message}});
    return result_of_insert(kept.error());
  }
  if (archive != nullptr) {
    // What the disk is too slow for is kept in memory alone.
    static_cast<void>(gateway_.disk_workers().post(
        [archive, question, answer, facts, before, lease = std::move(lease)]() mutable {
          archive->keep(question, answer, facts, before);
        }));
  }
  return StoreResult::kStored;
}

/// A question that is only like the one that was answered: now and then the model is asked all the
/// same, so that it is known how often that was wrong.
void GatewayRequest::compare_later(const AnswerLookup& found, const ApiRecord& record) {
  const AnswerSettings& settings = config_->settings.answers;
  if (!gateway_.chance(settings.verify_sample_rate)) return;
  const Question answered(question_->scope(), found.steps.back().candidate);
  const auto landed = [&gateway = gateway_, said = record.text(), answered](
                          const SharedResponse& /*broadcast*/, const Result<ApiRecord>& again) {
    if (!again.has_value()) return;
    const bool same = same_answer(said, again->text()) == SameAnswer::kSame;
    gateway.counts().compared(same);
    if (!same) gateway.forget(answered);
  };
  const auto broadcast =
      std::make_shared<SharedResponse>(SharedResponse::Options{.record = *operation_,
                                                               .max_record = settings.max_answer,
                                                               .shared = true,
                                                               .landed = landed,
                                                               .finish_abandoned = true});
  broadcast->controlled_by(gateway_.parts().backend.ask(asked(), broadcast));
}

}  // namespace afterimage
