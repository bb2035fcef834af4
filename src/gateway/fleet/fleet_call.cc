// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/fleet_call.h"

#include <algorithm>
#include <array>
#include <utility>

#include "gateway/openai/record.h"
#include "gateway/openai/usage_scan.h"

namespace afterimage {
namespace {

/// A request that breaks its replica must not break all of them.
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

CallResult result_of(const Error& error) {
  // The client left, or its request cannot be sent: that says nothing of the replica.
  if (error.code == ErrorCode::kCancelled || error.code == ErrorCode::kInvalidArgument) {
    return CallResult::kCancelled;
  }
  if (error.code == ErrorCode::kCorruption) return CallResult::kStatus;
  const bool late =
      error.code == ErrorCode::kUnavailable && error.message.ends_with("no response in time");
  return late ? CallResult::kTimeout : CallResult::kConnection;
}

}  // namespace

FleetAsk fleet_ask(const BackendRequest& request) {
  if (request.request == nullptr) return {};
  return {.model = request.request->model,
          .chain = std::make_shared<const ContentChain>(content_chain(*request.request))};
}

/// Hears one replica for one call. The head of a stream is kept back until its first byte, and a
/// short response that is no stream until it is whole: a replica that fails before is as if it had
/// not been asked.
class FleetCall::Attempt final : public BackendListener {
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
    if (call_->may_retry(result, claim_.route.replica)) return move_on(result);
    is_error_ = true;
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
    pass();
    // The place is free before the client reads the end: its next request finds it.
    settle(is_error_ ? result_of(status_) : CallResult::kAnswered);
    if (const auto listener = call_->finish()) listener->on_end();
  }
  void on_error(const Error& error) override {
    if (settled_) return;
    const CallResult result = result_of(error);
    const bool broke = result == CallResult::kConnection || result == CallResult::kStatus;
    if (!passed_ && broke && call_->may_retry(result, claim_.route.replica)) {
      return move_on(result);
    }
    settle(result);
    const auto listener = call_->finish();
    if (listener == nullptr) return;
    if (!passed_) listener->on_route(std::make_shared<const Route>(claim_.route));
    listener->on_error(error);
  }
  // Replicas are other servers, which make no records.
  void on_recorded_head(unsigned status, HttpHeaders headers) override {
    on_head(status, std::move(headers));
  }
  void on_record(ApiRecord /*record*/) override {}
  void on_bounded() override {}

 private:
  /// At the first byte.
  void begin() {
    if (std::exchange(begun_, true)) return;
    streamed_ = headers_.find("content-type").value_or("").starts_with("text/event-stream");
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
    call_->host_->fleet().ended(claim_, result,
                                {.prompt_tokens = usage_.prompt_tokens(),
                                 .output_tokens = usage_.output_tokens(),
                                 .cached_tokens = usage_.cached_tokens()});
    if (result == CallResult::kAnswered && status_ < 300) {
      call_->host_->answered(call_->request_, claim_);
    }
    call_->host_->pump();
  }
  void move_on(CallResult result) {
    settle(result);
    call_->retry(claim_.route.replica);
  }

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
  {
    const MutexLock lock(mutex_);
    at_replica_ = listener_ != nullptr && !cancelled_;
    if (at_replica_) mine = ++sends_;
  }
  if (mine == 0) {
    host_->fleet().ended(claim, CallResult::kCancelled, {});
    return;
  }
  claim.route.queued = host_->now() - arrived_;
  const std::shared_ptr<Backend> server = claim.replica->server;
  BackendCall call =
      server->ask(request_, std::make_shared<Attempt>(shared_from_this(), std::move(claim)));
  std::function<void()> cancel;
  bool paused = false;
  {
    const MutexLock lock(mutex_);
    // It may have ended or moved on to another replica before this one's handle is here.
    if (listener_ == nullptr || sends_ != mine || !at_replica_) return;
    current_ = call;
    if (cancelled_) cancel = call.cancel;
    paused = paused_;
  }
  if (paused) call.pause();
  if (cancel) cancel();
}

bool FleetCall::may_retry(CallResult result, const std::string& failed) {
  if (!replayable_ || ask_.attempt >= kMostAttempts || is_over()) return false;
  FleetAsk next = ask_;
  next.avoid.push_back(failed);
  // Where nothing answered, it is better to wait for another replica than to fail.
  if (!host_->fleet().others_may_take(next, /*also_ejected=*/result == CallResult::kConnection)) {
    return false;
  }
  const bool allowed = host_->fleet().may_retry();
  host_->count_retry(allowed);
  return allowed;
}

void FleetCall::retry(const std::string& failed) {
  std::function<void()> stop;
  std::shared_ptr<BackendListener> left;
  {
    const MutexLock lock(mutex_);
    stop = std::exchange(current_, {}).cancel;
    at_replica_ = false;
    if (cancelled_) left = std::exchange(listener_, nullptr);
  }
  stop();
  if (left != nullptr) return left->on_error({ErrorCode::kCancelled, "the call was cancelled"});
  ask_.avoid.push_back(failed);
  ++ask_.attempt;
  waits_since_ = host_->now();
  host_->place(shared_from_this());
}

void FleetCall::refuse(unsigned status, std::string_view message, std::string_view type,
                       std::string_view code, std::optional<unsigned> retry_after_s) {
  const auto listener = finish_waiting();
  if (listener == nullptr) return;
  HttpHeaders headers{{"Content-Type", "application/json"}};
  if (retry_after_s.has_value()) headers.add("Retry-After", std::to_string(*retry_after_s));
  listener->on_head(status, std::move(headers));
  listener->on_bytes(api_error(message, type, code));
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
