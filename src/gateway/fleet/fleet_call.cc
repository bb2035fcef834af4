// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/fleet_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "foundation/crypto/sha256.h"
#include "foundation/platform/fault_points.h"
#include "gateway/openai/cached_tokens.h"
#include "gateway/openai/record.h"
#include "gateway/openai/usage_scan.h"

namespace afterimage {
namespace {

constexpr std::uint32_t kMostAttempts = 3;
/// A whole response of up to this size can be asked for again until its end.
constexpr std::size_t kKept = 256UL * 1024;

/// Whether asking twice does no more than asking once: inference, and reading.
bool is_replayable(const BackendRequest& request) {
  if (request.operation.has_value() || request.method == "GET" || request.method == "HEAD") {
    return true;
  }
  static constexpr auto kInference = std::to_array<std::string_view>(
      {"/v1/messages", "/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/rerank",
       "/v1/reranking", "/v1/score", "/v1/classify", "/v1/pooling", "/v1/tokenize",
       "/v1/detokenize", "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/audio/speech",
       "/v1/images/generations", "/v1/moderations"});
  const std::string_view path =
      std::string_view(request.target).substr(0, request.target.find('?'));
  return request.method == "POST" && std::ranges::find(kInference, path) != kInference.end();
}

/// What a status says of the replica.
CallResult result_of(unsigned status) {
  if (status == 429) return CallResult::kBusy;
  const bool broken = status == 500 || status == 502 || status == 503 || status == 504;
  return broken ? CallResult::kStatus : CallResult::kAnswered;
}

/// A server, or the proxy before it, answers so when its engine has just died.
bool may_be_dying(unsigned status) { return status == 500 || status == 502; }

CallResult result_of(const HttpFailure& failure) {
  // The client left, or its request cannot be sent from here: that says nothing of the replica.
  const ErrorCode code = failure.error.code;
  if (code == ErrorCode::kCancelled || code == ErrorCode::kInvalidArgument ||
      code == ErrorCode::kLimitExceeded) {
    return CallResult::kCancelled;
  }
  if (code == ErrorCode::kCorruption) return CallResult::kStatus;
  const bool has_it = failure.stage != HttpStage::kNotSent;
  return code == ErrorCode::kTimeout && has_it ? CallResult::kTimeout : CallResult::kConnection;
}

/// What a failed call says of the replica's health, unless it is then found dead. One that took the request
/// and broke off counts as one that answers with errors: this request may be the reason, or a connection
/// that was idle for too long.
CallResult of_its_health(const HttpFailure& failure, CallResult result) {
  const bool broke_off = result == CallResult::kConnection && failure.stage != HttpStage::kNotSent;
  return broke_off ? CallResult::kStatus : result;
}

/// No replica reuses for this salt what it holds for another.
std::shared_ptr<const ContentChain> salted(const ContentChain& chain, std::string_view salt) {
  auto made = std::make_shared<ContentChain>(chain);
  const auto mask = sha256(std::as_bytes(std::span(salt)));
  for (ChainLink& link : made->links) {
    for (std::size_t i = 0; i < mask.size(); ++i) link.key.bytes[i] ^= mask[i];
  }
  return made;
}

}  // namespace

FleetAsk fleet_ask(const BackendRequest& request) {
  if (request.request == nullptr) return {};
  auto chain = request.chain != nullptr ? request.chain->get() : SharedChain(request.request).get();
  if (!request.salt.empty()) chain = salted(*chain, request.salt);
  return {.model = request.request->model, .chain = std::move(chain)};
}

/// Hears one replica for one call. The head of a stream is kept back until its first byte, and a
/// short response that is no stream until it is whole: a replica that fails before is as if it had
/// not been asked.
class FleetCall::Attempt final : public BackendListener,
                                 public std::enable_shared_from_this<FleetCall::Attempt> {
 public:
  Attempt(std::shared_ptr<FleetCall> call, FleetClaim claim)
      : call_(std::move(call)), claim_(std::move(claim)) {}
  ~Attempt() override { settle(CallResult::kCancelled); }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  void on_head(unsigned status, HttpHeaders headers) override {
    if (settled_) return;
    status_ = status;
    headers_ = std::move(headers);
    const CallResult result = result_of(status);
    if (result == CallResult::kAnswered) return;
    is_error_ = true;
    if (!call_->may_retry(nullptr, replica())) return;
    settle(result);
    call_->leave();
    if (!may_be_dying(status)) return call_->retry(replica());
    call_->check(replica(), [self = shared_from_this()](bool alive) {
      alive ? self->call_->retry(self->replica())
            : self->call_->refuse_as_fatal(self->claim_.route);
    });
  }
  void on_bytes(std::string_view bytes) override {
    if (settled_) return;
    usage_.feed(bytes);
    begin();
    if (!passed_ && !streamed_ && kept_.size() + bytes.size() <= kKept) {
      kept_.append(bytes);
      return;
    }
    pass();
    if (const auto listener = call_->listener()) listener->on_bytes(bytes);
  }
  void on_end() override {
    if (settled_) return;
    begin();
    if (is_error_ && may_be_dying(status_) && !passed_) {
      settle(result_of(status_));
      call_->leave();
      return call_->check(replica(), [self = shared_from_this()](bool alive) {
        if (!alive) return self->call_->refuse_as_fatal(self->claim_.route);
        self->end();
      });
    }
    // The place is free before the client reads the end: its next request finds it.
    settle(is_error_ ? result_of(status_) : CallResult::kAnswered);
    end();
  }
  void on_error(const Error& error) override { on_failure({.error = error}); }
  void on_failure(const HttpFailure& failure) override {
    if (settled_) return;
    const CallResult result = result_of(failure);
    settle(of_its_health(failure, result));
    if (call_->take_left_asleep() && !begun_) {
      call_->leave();
      return call_->send_again();
    }
    if (result != CallResult::kConnection && result != CallResult::kStatus) return fail(failure);
    if (passed_) {
      call_->check(replica(), [](bool /*alive*/) {});  // counts its death
      return fail(failure);
    }
    call_->leave();
    const auto go_on = [self = shared_from_this(), failure](bool alive) {
      if (!alive) return self->call_->refuse_as_fatal(self->claim_.route);
      if (self->call_->may_retry(&failure, self->replica())) {
        return self->call_->retry(self->replica());
      }
      if (failure.reused && self->call_->may_send_again()) return self->call_->send_again();
      self->fail(failure);
    };
    if (failure.stage == HttpStage::kNotSent) return go_on(true);
    call_->check(replica(), go_on);
  }

 private:
  /// At the first byte.
  void begin() {
    if (std::exchange(begun_, true)) return;
    call_->note_begun();
    streamed_ = has_media_type(headers_, "text/event-stream");
    if (!is_error_ && status_ < 300) call_->host_->fleet().began(claim_, streamed_);
  }
  /// What was kept back.
  void pass() {
    if (std::exchange(passed_, true)) return;
    const auto listener = call_->listener();
    if (listener == nullptr) return;
    headers_.set("X-Afterimage-Replica", claim_.route.replica);
    headers_.set("X-Afterimage-Route", std::string(claim_.route.reason));
    listener->on_route(std::make_shared<const Route>(claim_.route));
    listener->on_head(status_, std::move(headers_));
    if (!kept_.empty()) listener->on_bytes(kept_);
    kept_ = {};
  }
  /// Gives the replica's place back, once.
  void settle(CallResult result) {
    if (std::exchange(settled_, true)) return;
    const bool is_doubted = call_->host_->fleet().ended(
        claim_, result,
        {.prompt_tokens = usage_.prompt_tokens(), .cached_tokens = cached_tokens()});
    if (is_doubted) call_->host_->doubt(replica());
    if (result == CallResult::kAnswered && status_ < 300) {
      FatalRequests& fatal = call_->host_->fatal();
      if (!fatal.is_empty()) fatal.answered(call_->digest());
      call_->host_->answered(call_->request_, claim_);
    }
    call_->host_->pump();
  }
  /// nullopt: it is unknown what the replica held.
  [[nodiscard]] std::optional<std::uint64_t> cached_tokens() const {
    const auto& request = call_->request_.request;
    const bool tells = request == nullptr || tells_what_was_cached(*request);
    return tells ? usage_.cached_tokens() : std::nullopt;
  }
  void end() {
    pass();
    if (const auto listener = call_->finish()) listener->on_end();
  }
  void fail(const HttpFailure& failure) {
    const auto listener = call_->finish();
    if (listener == nullptr) return;
    if (!passed_) listener->on_route(std::make_shared<const Route>(claim_.route));
    listener->on_failure(failure);
  }
  [[nodiscard]] const std::string& replica() const { return claim_.route.replica; }

  const std::shared_ptr<FleetCall> call_;
  FleetClaim claim_;
  unsigned status_ = 0;
  HttpHeaders headers_;
  UsageScan usage_;
  bool is_error_ = false;  // a response that says that the replica failed, and is passed on
  std::string kept_;       // of the body, until it is whole
  bool streamed_ = false;
  bool begun_ = false;   // the first byte came
  bool passed_ = false;  // the client may have seen a part of it
  bool settled_ = false;
};

FleetCall::FleetCall(std::shared_ptr<FleetCallHost> host, BackendRequest request,
                     std::shared_ptr<BackendListener> listener)
    : host_(std::move(host)),
      request_(std::move(request)),
      replayable_(is_replayable(request_)),
      arrived_(host_->now()),
      ask_(fleet_ask(request_)),
      waits_since_(arrived_),
      listener_(std::move(listener)) {}

bool FleetCall::is_over() const {
  const MutexLock lock(mutex_);
  return listener_ == nullptr || cancelled_;
}

std::shared_ptr<BackendListener> FleetCall::listener() const {
  const MutexLock lock(mutex_);
  return listener_;
}

std::shared_ptr<BackendListener> FleetCall::finish() {
  const MutexLock lock(mutex_);
  current_ = {};
  return std::exchange(listener_, nullptr);
}

std::shared_ptr<BackendListener> FleetCall::finish_waiting() {
  const MutexLock lock(mutex_);
  return at_replica_ ? nullptr : std::exchange(listener_, nullptr);
}

void FleetCall::send(FleetClaim claim) {
  std::uint64_t mine = 0;
  if (!is_refused()) {
    const MutexLock lock(mutex_);
    at_replica_ = listener_ != nullptr && !cancelled_;
    if (at_replica_) mine = ++sends_;
    replica_ = claim.route.replica;
    is_begun_ = false;
    left_asleep_ = false;
  }
  if (mine == 0) {
    host_->fleet().ended(claim, CallResult::kCancelled, {});
    return;
  }
  claim.route.queued = host_->now() - arrived_;
  const std::shared_ptr<Backend> server = claim.replica->server;
  BackendRequest request = request_;
  request.resends = !replayable_;  // another replica is the better one to ask again
  request.once = unanswered_ > 0;
  BackendCall call = server->ask(std::move(request),
                                 std::make_shared<Attempt>(shared_from_this(), std::move(claim)));
  std::function<void()> cancel;
  bool paused = false;
  {
    const MutexLock lock(mutex_);
    // It may have ended or moved on to another replica before this one's handle is here.
    if (listener_ == nullptr || sends_ != mine || !at_replica_) return;
    current_ = call;
    if (cancelled_ || left_asleep_) cancel = call.cancel;
    paused = paused_;
  }
  if (paused) call.pause();
  if (cancel) return cancel();
  host_->sent(shared_from_this());
}

const RequestDigest& FleetCall::digest() {
  return digest_.get([this] { return request_digest(request_); });
}

bool FleetCall::is_refused() {
  FatalRequests& fatal = host_->fatal();
  if (fatal.is_empty()) return false;
  const auto left = fatal.refused_for(digest(), host_->now());
  if (AFI_GUARD("fatal.refused", !left.has_value())) return false;
  const auto wait = std::chrono::ceil<std::chrono::seconds>(left.value_or(Duration(0)));
  refuse({.status = 503,
          .message = fmt::format("{} replicas died while they ran this request: it is refused for "
                                 "another {} s (upstream.fatal_refusal)",
                                 FatalRequests::kDeaths, wait.count()),
          .type = "server_error",
          .code = "fatal_request_refused",
          .retry_after_s = static_cast<unsigned>(wait.count()),
          .is_final = true});
  return true;
}

void FleetCall::refuse_as_fatal(const Route& route) {
  if (const auto waiting = listener()) waiting->on_route(std::make_shared<const Route>(route));
  refuse({.status = 502,
          .message = fmt::format("replica '{}' died while it ran this request, which is therefore "
                                 "sent to no other one: see its log before you send it again",
                                 route.replica),
          .type = "server_error",
          .code = "fatal_request",
          .is_final = true});
}

void FleetCall::check(const std::string& replica, std::function<void(bool alive)> then) {
  host_->check(replica, [self = shared_from_this(), replica, then = std::move(then)](bool answers) {
    const bool alive = AFI_GUARD("fatal.died", answers);
    if (!alive) self->host_->died(self->request_, self->digest(), replica);
    then(alive);
  });
}

bool FleetCall::may_retry(const HttpFailure* failure, const std::string& failed) {
  const bool has_it = failure == nullptr || failure->stage != HttpStage::kNotSent;
  if (failure != nullptr && has_it) {
    unanswered_ += failure->resent ? 2 : 1;
    if (!AFI_GUARD("fatal.unanswered", unanswered_ <= 1)) return false;
  }
  if (!replayable_ || ask_.attempt >= kMostAttempts || is_over()) return false;
  FleetAsk next = ask_;
  next.avoid.push_back(failed);
  next.only_healthy = next.only_healthy || has_it;
  // Where nothing has it, it is better to wait for another replica than to fail.
  if (!host_->fleet().others_may_take(next, /*also_ejected=*/!has_it)) return false;
  const bool allowed = host_->fleet().may_retry();
  if (!allowed) host_->count_retry(false);
  ask_.only_healthy = next.only_healthy;
  return allowed;
}

bool FleetCall::may_send_again() const {
  return replayable_ && unanswered_ == 1 && ask_.attempt < kMostAttempts && !is_over();
}

void FleetCall::leave() {
  std::function<void()> stop;
  {
    const MutexLock lock(mutex_);
    stop = std::exchange(current_, {}).cancel;
    at_replica_ = false;
  }
  stop();
}

void FleetCall::note_begun() {
  const MutexLock lock(mutex_);
  is_begun_ = true;
}

bool FleetCall::take_left_asleep() {
  const MutexLock lock(mutex_);
  return std::exchange(left_asleep_, false);
}

void FleetCall::leave_sleeping(const std::string& replica) {
  std::function<void()> stop;
  {
    const MutexLock lock(mutex_);
    if (!replayable_ || !at_replica_ || is_begun_ || replica_ != replica) return;
    left_asleep_ = true;
    stop = current_.cancel;
  }
  stop();
}

void FleetCall::retry(const std::string& failed) {
  ask_.avoid.push_back(failed);
  send_again();
}

void FleetCall::send_again() {
  std::shared_ptr<BackendListener> left;
  {
    const MutexLock lock(mutex_);
    if (cancelled_) left = std::exchange(listener_, nullptr);
  }
  if (left != nullptr) return left->on_error({ErrorCode::kCancelled, "the call was cancelled"});
  host_->count_retry(true);
  ++ask_.attempt;
  waits_since_ = host_->now();
  host_->place(shared_from_this());
}

void FleetCall::refuse(const Refusal& refusal) {
  const auto listener = finish_waiting();
  if (listener == nullptr) return;
  HttpHeaders headers{{"Content-Type", "application/json"}};
  if (refusal.retry_after_s.has_value()) {
    headers.add("Retry-After", std::to_string(*refusal.retry_after_s));
  }
  if (refusal.is_final) headers.add(std::string(kShouldRetry), "false");
  listener->on_head(refusal.status, std::move(headers));
  listener->on_bytes(api_error(refusal.message, refusal.type, refusal.code));
  listener->on_end();
}

void FleetCall::cancel() {
  std::function<void()> stop;
  std::shared_ptr<BackendListener> waiting;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(cancelled_, true)) return;
    stop = current_.cancel;
    if (!at_replica_) waiting = std::exchange(listener_, nullptr);
  }
  // At a replica its connection is closed, and then the listener hears of it.
  if (waiting != nullptr) {
    waiting->on_error({ErrorCode::kCancelled, "the call was cancelled"});
  } else {
    stop();
  }
}

void FleetCall::hold(bool paused) {
  BackendCall current;
  {
    const MutexLock lock(mutex_);
    paused_ = paused;
    current = current_;
  }
  paused ? current.pause() : current.resume();
}

}  // namespace afterimage
