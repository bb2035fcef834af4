// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/shared_response.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace afterimage {
namespace {

constexpr std::size_t kReadAtOnce = 64 * 1024;
/// What a slow reader of a response of its own may leave unread.
constexpr std::size_t kUnread = 1024 * 1024;
/// A larger response is passed on as it comes.
constexpr std::size_t kGathered = 16 * 1024 * 1024;
constexpr std::string_view kNoFinishReason = "the model's server ended it without a finish reason";
constexpr std::string_view kEndedEarly =
    "the model's server ended the response before the answer was complete";

}  // namespace

bool is_failure(unsigned status) { return status == 408 || status == 429 || status >= 500; }

std::optional<StreamRecorder> SharedResponse::recorder(const Options& options) {
  if (!options.record.has_value() || is_verbatim(*options.record)) return std::nullopt;
  return StreamRecorder(*options.record, options.max_record);
}

void SharedResponse::on_head(unsigned status, HttpHeaders headers) {
  status_ = status;
  headers_ = std::move(headers);
  events_ = has_media_type(headers_, "text/event-stream");
  if (events_) {
    stream_.emplace(std::max<std::size_t>(EventStreamReader::kLimit, options_.max_record.value()));
  }
  std::size_t length = kGathered + 1;
  if (const auto said = headers_.find("content-length")) {
    std::from_chars(said->data(), said->data() + said->size(), length);
  }
  gathers_ = !events_ && (is_gathered_whole() || length <= kGathered ||
                          has_media_type(headers_, "application/json"));
  if (!gathers_) settle(State::kStreams);
}

void SharedResponse::on_recorded_head(unsigned status, HttpHeaders headers) {
  recorder_.reset();
  on_head(status, std::move(headers));
  stream_.reset();
}

void SharedResponse::on_bounded() {
  options_.record = std::nullopt;
  recorder_.reset();
}

void SharedResponse::on_record(ApiRecord record) {
  {
    const MutexLock lock(mutex_);
    usage_.prompt_tokens = record.prompt_tokens().value();
    usage_.output_tokens = record.output_tokens().value();
  }
  record_ = std::move(record);
  finish_record();
}

void SharedResponse::on_bytes(std::string_view bytes) {
  if (stream_.has_value()) {
    stream_->feed(bytes, [this](std::string_view name, std::string_view data) {
      hear(ApiEvent(name, data, json_));
    });
  } else if (options_.counts_tokens) {
    const MutexLock lock(mutex_);
    scan_.feed(bytes);
  }
  const bool is_recorded = recorder_.has_value() && recorder_->done();
  // To a client [DONE] is the end: its next request finds this answer stored.
  if (is_recorded) finish_record();
  if (events_end_.is_done() && options_.completed) {
    {
      const MutexLock lock(mutex_);
      if (!cut_)
        bytes_.append(std::exchange(bytes, {}));  // nobody reads them before given_ says so
    }
    finish_record();
  }
  bool pause = false;
  {
    const MutexLock lock(mutex_);
    is_done_ = is_recorded || record_.has_value() || events_end_.is_done();
    if (!cut_) {  // the rest of what broke off is dropped
      bytes_.append(bytes);
      given_ = stream_.has_value() ? stream_->whole() : base_ + bytes_.size();
      if (early_done_.has_value()) break_off(kNoFinishReason);
    }
    pause = !options_.shared && !gathers_ && bytes_.size() > kUnread && !paused_;
    paused_ |= pause;
    if (pause && call_.has_value()) call_->pause();
  }
  if (gathers_) {
    const MutexLock lock(mutex_);
    if (bytes_.size() <= kGathered || is_gathered_whole()) return;
    gathers_ = false;
  }
  settle(State::kStreams);
  wake_readers();
}

void SharedResponse::on_end() {
  bool is_early = false;
  if (stream_.has_value()) {
    const std::string last = stream_->unfinished_data();
    ApiEvent event("", last, json_);
    hear_end(event);
    if (is_kept_as_sent() && !last.empty()) events_end_.add(event);
    const MutexLock lock(mutex_);
    // SDKs take what came so far for the whole answer.
    is_early = must_say_end() && !has_ended_;
    failed_ = failed_ || is_early;
  }
  finish_record();
  if (gathers_) {
    {
      const MutexLock lock(mutex_);
      over_ = true;
      whole_ = std::make_shared<const std::string>(std::move(bytes_));
    }
    settle(State::kWhole);
    return;
  }
  {
    const MutexLock lock(mutex_);
    over_ = true;
    if (is_early && !cut_) break_off(early_done_.has_value() ? kNoFinishReason : kEndedEarly);
    given_ = base_ + bytes_.size();
  }
  wake_readers();
}

void SharedResponse::break_off(std::string_view why) {
  cut_ = true;
  // What was left of a torn event is dropped: it would only break a client's parser before it reads
  // what happened.
  bytes_.resize(early_done_.value_or(given_) - base_);
  bytes_ +=
      "data: " +
      api_error("the answer broke off: " + std::string(why), "upstream_error", "answer_broke_off") +
      "\n\n";
  given_ = base_ + bytes_.size();
}

void SharedResponse::on_failure(const HttpFailure& failure) {
  const Error& error = failure.error;
  {
    const MutexLock lock(mutex_);
    failed_ = failed_ || error.code != ErrorCode::kCancelled;  // cancelled: everybody has left
  }
  if (const auto completed = std::exchange(options_.completed, nullptr)) {
    completed(*this, std::unexpected(error));
  }
  bool headless = false;
  {
    const MutexLock lock(mutex_);
    over_ = true;
    headless = state_ == State::kWaiting;
    if (!headless && events_ && !cut_) break_off(error.message);
    broken_ = !headless && !events_;
  }
  if (headless) failure_ = failure;
  settle(headless ? State::kFailed : State::kStreams);
  wake_readers();
}

void SharedResponse::finish_record() {
  // The callback may hold this response: it is freed once it was called.
  const auto completed = std::exchange(options_.completed, nullptr);
  if (completed) completed(*this, recorded());
}

Result<ApiRecord> SharedResponse::recorded() {
  if (!options_.record.has_value()) return fail(ErrorCode::kUnsupported, "it is not recorded");
  if (status_ != 200) return fail(ErrorCode::kInvalidArgument, "it is an error");
  if (record_.has_value()) {
    if (record_->size() <= options_.max_record) return *record_;
    return fail(ErrorCode::kLimitExceeded, "it is larger than answers.max_answer");
  }
  if (events_ && !is_kept_as_sent()) return recorder_->finish(*stream_);
  const MutexLock lock(mutex_);
  if (is_kept_as_sent()) return recorded_as_sent();
  if (bytes_.size() > options_.max_record.value() || !gathers_) {
    return fail(ErrorCode::kLimitExceeded, "it is larger than answers.max_answer");
  }
  return ApiRecord::of_body(*options_.record, bytes_);
}

Result<ApiRecord> SharedResponse::recorded_as_sent() const {
  if (bytes_.size() > options_.max_record.value()) {
    return fail(ErrorCode::kLimitExceeded, "it is larger than answers.max_answer");
  }
  // Without a length, the end of the connection may be that of the server.
  const bool has_length = headers_.find("content-length").has_value() ||
                          headers_.find("transfer-encoding").has_value() ||
                          has_media_type(headers_, "application/json");
  if (events_ ? cut_ || !events_end_.is_complete() : !has_length) {
    return fail(ErrorCode::kInvalidArgument, "nothing says that it is complete");
  }
  return ApiRecord::of_response(*options_.record, headers_.find("content-type").value_or(""),
                                bytes_);
}

void SharedResponse::controlled_by(BackendCall call) {
  std::function<void()> cancel;
  {
    const MutexLock lock(mutex_);
    if (cancelled_) cancel = call.cancel;
    call_ = std::move(call);
  }
  if (cancel) cancel();
}

void SharedResponse::hear(ApiEvent event) {
  if (options_.counts_tokens) {
    const MutexLock lock(mutex_);
    scan_.feed(event.data());
    if (event.data().starts_with('{')) ++usage_.events;
  }
  if (recorder_.has_value()) recorder_->add(event);
  if (is_kept_as_sent()) events_end_.add(event);
  hear_end(event);
}

void SharedResponse::hear_end(ApiEvent& event) {
  if (!must_say_end() || has_ended_ || early_done_.has_value()) return;
  // Most events of a stream that nobody records.
  if (awaits_end_ && !event.is_parsed() && !event.is_done() && event.surely_goes_on()) return;
  const ApiEvent::End end = event.end();
  if (event.is_done() && awaits_end_) early_done_ = stream_->whole();
  // Servers that never say a finish reason end with [DONE].
  has_ended_ = event.is_done() ? !awaits_end_
                               : end == ApiEvent::End::kFinished || end == ApiEvent::End::kFailed;
  awaits_end_ = awaits_end_ || end == ApiEvent::End::kAwaited;
  if (end != ApiEvent::End::kFailed && !early_done_.has_value()) return;
  const MutexLock lock(mutex_);
  failed_ = true;
}

SharedResponse::Usage SharedResponse::usage() const {
  const MutexLock lock(mutex_);
  Usage usage = usage_;
  if (!usage.prompt_tokens.has_value()) usage.prompt_tokens = scan_.prompt_tokens();
  if (!usage.output_tokens.has_value()) usage.output_tokens = scan_.output_tokens();
  usage.cached_tokens = scan_.cached_tokens();
  return usage;
}

void SharedResponse::forget_all() {
  const auto completed = std::exchange(options_.completed, nullptr);
  std::vector<std::function<void()>> ready;
  std::vector<std::function<void()>> wakes;
  const MutexLock lock(mutex_);
  over_ = true;
  ready.swap(ready_);
  wakes.swap(wakes_);
}

void SharedResponse::abandon(bool elsewhere) {
  answered_elsewhere_ = elsewhere;
  const auto completed = std::exchange(options_.completed, nullptr);
  {
    const MutexLock lock(mutex_);
    over_ = true;
  }
  settle(State::kAbandoned);
}

bool SharedResponse::wanted() const {
  const MutexLock lock(mutex_);
  return subscribers_ > 0 && !cancelled_;
}

void SharedResponse::settle(State state) {
  std::vector<std::function<void()>> calls;
  {
    const MutexLock lock(mutex_);
    if (state_ != State::kWaiting) return;
    state_ = state;
    calls.swap(ready_);
  }
  for (const auto& call : calls) call();
}

void SharedResponse::wake_readers() {
  std::vector<std::function<void()>> calls;
  {
    const MutexLock lock(mutex_);
    calls.swap(wakes_);
  }
  for (const auto& call : calls) call();
}

void SharedResponse::when_ready(std::function<void()> ready) {
  {
    const MutexLock lock(mutex_);
    if (state_ == State::kWaiting) {
      ready_.push_back(std::move(ready));
      return;
    }
  }
  ready();
}

SharedResponse::State SharedResponse::state() const {
  const MutexLock lock(mutex_);
  return state_;
}

std::uint64_t SharedResponse::subscribers() const {
  const MutexLock lock(mutex_);
  return subscribers_;
}

std::shared_ptr<SharedResponse::Subscriber> SharedResponse::join() {
  {
    const MutexLock lock(mutex_);
    ++subscribers_;
  }
  return std::make_shared<Subscriber>(shared_from_this());
}

void SharedResponse::Subscriber::leave() {
  if (!left_.exchange(true)) response_->leave();
}

void SharedResponse::leave() {
  std::function<void()> cancel;
  {
    const MutexLock lock(mutex_);
    const bool abandoned = --subscribers_ == 0 && !over_;
    // Clients leave at [DONE] and do not wait for the end of the body, which comes at once.
    if (abandoned && !options_.finish_abandoned && !is_done_) {
      cancelled_ = true;
      if (call_.has_value()) cancel = call_->cancel;
    }
  }
  if (cancel) cancel();
}

bool SharedResponse::complete() const {
  const MutexLock lock(mutex_);
  return over_ && !broken_ && !failure_.has_value() && !cut_;
}

bool SharedResponse::has_failed() const {
  const MutexLock lock(mutex_);
  return failed_ || is_failure(status_);
}

BodySource::Piece SharedResponse::read(std::size_t from, std::function<void()> wake) {
  BodySource::Piece piece;
  const MutexLock lock(mutex_);
  if (from < base_) return {.bytes = {}, .state = BodySource::State::kBroken};
  const std::size_t at = from - base_;
  piece.bytes = bytes_.substr(at, std::min(kReadAtOnce, given_ - from));
  const bool all = from + piece.bytes.size() == given_;
  if (all && over_) {
    piece.state = broken_ ? BodySource::State::kBroken : BodySource::State::kEnd;
  }
  if (piece.bytes.empty() && piece.state == BodySource::State::kMore) {
    wakes_.push_back(std::move(wake));
  }
  if (!options_.shared) {
    bytes_.erase(0, at);
    base_ = from;
    if (paused_ && bytes_.size() < kUnread / 2) {
      paused_ = false;
      if (call_.has_value()) call_->resume();
    }
  }
  return piece;
}

HeldBytes SharedResponse::held() const {
  const MutexLock lock(mutex_);
  return {.what = this, .bytes = bytes_.size()};
}

/// One reader, and the subscription that it keeps until it has read what it wants.
class SharedResponse::Reader final : public BodySource {
 public:
  Reader(std::shared_ptr<Subscriber> subscriber, std::function<void(bool is_slow)> last)
      : subscriber_(std::move(subscriber)), last_(std::move(last)) {}
  ~Reader() override { Reader::left(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  Piece read(std::size_t from, std::function<void()> wake) override {
    return subscriber_->response().read(from, std::move(wake));
  }
  [[nodiscard]] HeldBytes held() const override { return subscriber_->response().held(); }
  void too_slow() override { is_slow_ = true; }
  void left() override {
    subscriber_->leave();
    if (last_) std::exchange(last_, nullptr)(is_slow_);
  }

 private:
  std::shared_ptr<Subscriber> subscriber_;
  std::function<void(bool is_slow)> last_;
  bool is_slow_ = false;
};

std::shared_ptr<BodySource> SharedResponse::body(std::shared_ptr<Subscriber> subscriber,
                                                 std::function<void(bool is_slow)> last) {
  return std::make_shared<Reader>(std::move(subscriber), std::move(last));
}

}  // namespace afterimage
