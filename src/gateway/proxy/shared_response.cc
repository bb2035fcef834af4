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

bool begins_with(const HttpHeaders& headers, std::string_view name, std::string_view value) {
  const auto found = headers.find(name);
  return found.has_value() && same_header(found->substr(0, value.size()), value);
}

/// Where the last whole event ends; npos: there is none.
std::size_t end_of_events(std::string_view bytes) {
  std::size_t end = std::string_view::npos;
  for (const std::string_view mark : {"\n\n", "\r\n\r\n", "\r\r"}) {
    const std::size_t at = bytes.rfind(mark);
    if (at == std::string_view::npos) continue;
    end = end == std::string_view::npos ? at + mark.size() : std::max(end, at + mark.size());
  }
  return end;
}

/// An estimate: a mark that lies across two pieces is not seen.
std::uint64_t count_events(std::string_view bytes) {
  constexpr std::string_view kMark = "data: {";
  std::uint64_t count = 0;
  for (std::size_t at = bytes.find(kMark); at != std::string_view::npos;
       at = bytes.find(kMark, at + kMark.size())) {
    ++count;
  }
  return count;
}

/// Where the event [DONE] begins; npos: there is none. No JSON has a line that begins like that.
std::size_t done_event(std::string_view events) {
  constexpr std::string_view kField = "data:";
  for (std::size_t at = events.find("[DONE]"); at != std::string_view::npos;
       at = events.find("[DONE]", at + 1)) {
    std::string_view before = events.substr(0, at);
    if (before.ends_with(' ')) before.remove_suffix(1);
    if (!before.ends_with(kField)) continue;
    before.remove_suffix(kField.size());
    if (before.empty() || before.ends_with('\n') || before.ends_with('\r')) return before.size();
  }
  return std::string_view::npos;
}

/// What events of a chat or completion say of its end. Within texts quotes are escaped.
struct EndOfAnswer {
  bool is_said = false;     // by a finish reason or an error
  bool is_awaited = false;  // a finish reason is null
  bool is_error = false;
};

EndOfAnswer end_of_answer(std::string_view events) {
  EndOfAnswer end;
  for (const std::string_view name : {R"("finish_reason")", R"("error")"}) {
    for (std::size_t at = events.find(name); at != std::string_view::npos;
         at = events.find(name, at + 1)) {
      const std::size_t value = events.find_first_not_of(" :", at + name.size());
      if (value == std::string_view::npos) continue;
      const bool is_null = events[value] == 'n';
      end.is_said = end.is_said || !is_null;
      end.is_awaited = end.is_awaited || (is_null && name == R"("finish_reason")");
      end.is_error = end.is_error || (!is_null && name == R"("error")");
    }
  }
  return end;
}

}  // namespace

bool is_failure(unsigned status) { return status == 408 || status == 429 || status >= 500; }

std::optional<StreamRecorder> SharedResponse::recorder(const Options& options) {
  if (!options.record.has_value()) return std::nullopt;
  return StreamRecorder(*options.record, options.max_record);
}

void SharedResponse::on_head(unsigned status, HttpHeaders headers) {
  status_ = status;
  headers_ = std::move(headers);
  events_ = begins_with(headers_, "content-type", "text/event-stream");
  std::size_t length = kGathered + 1;
  if (const auto said = headers_.find("content-length")) {
    std::from_chars(said->data(), said->data() + said->size(), length);
  }
  gathers_ = !events_ &&
             (length <= kGathered || begins_with(headers_, "content-type", "application/json"));
  if (!gathers_) settle(State::kStreams);
}

void SharedResponse::on_recorded_head(unsigned status, HttpHeaders headers) {
  recorder_.reset();
  on_head(status, std::move(headers));
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

std::size_t SharedResponse::append(std::string_view bytes) {
  if (cut_) return given_;  // the rest of what broke off is dropped
  bytes_.append(bytes);
  if (events_) {
    // A mark may lie across two pieces; older bytes hold none that was not found before.
    const std::size_t from = std::max(given_, base_) - base_;
    const std::size_t end = end_of_events(std::string_view(bytes_).substr(from));
    if (end == std::string_view::npos) return given_;
    read_end(from + end);
    if (!cut_) return base_ + from + end;
  }
  return base_ + bytes_.size();
}

void SharedResponse::on_bytes(std::string_view bytes) {
  if (options_.counts_tokens) count_tokens(bytes);  // before `completed` asks how many
  std::size_t readable = 0;
  {
    const MutexLock lock(mutex_);
    readable = append(bytes);
  }
  bool is_done = record_.has_value();
  if (events_ && recorder_.has_value()) {
    recorder_->feed(bytes);
    is_done = recorder_->done();
    // To a client [DONE] is the end: its next request finds this answer stored.
    if (is_done) finish_record();
  }
  bool pause = false;
  {
    const MutexLock lock(mutex_);
    is_done_ = is_done;
    given_ = readable;
    pause = !options_.shared && !gathers_ && bytes_.size() > kUnread && !paused_;
    paused_ |= pause;
    if (pause && call_.has_value()) call_->pause();
  }
  if (gathers_) {
    const MutexLock lock(mutex_);
    if (bytes_.size() <= kGathered) return;
    gathers_ = false;
  }
  settle(State::kStreams);
  wake_readers();
}

void SharedResponse::on_end() {
  if (!gathers_) {
    const MutexLock lock(mutex_);
    read_end(bytes_.size());
    if (must_say_end() && !has_ended_) {
      break_off("the model's server ended the response before the answer was complete");
    }
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
    given_ = base_ + bytes_.size();
  }
  wake_readers();
}

// SDKs take what came so far for the whole answer.
bool SharedResponse::must_say_end() const {
  return events_ && options_.has_end && status_ == 200 && !cut_;
}

void SharedResponse::read_end(std::size_t end) {
  if (!must_say_end() || has_ended_) return;
  const std::size_t from = std::max(given_, base_) - base_;
  const std::string_view events = std::string_view(bytes_).substr(from, end - from);
  const std::size_t done = done_event(events);
  const EndOfAnswer said = end_of_answer(events.substr(0, done));
  has_ended_ = said.is_said;
  failed_ = failed_ || said.is_error;
  awaits_end_ = awaits_end_ || said.is_awaited;
  if (has_ended_ || done == std::string_view::npos) return;
  // Servers that never say a finish reason end so; of others the model has not finished.
  has_ended_ = !awaits_end_;
  if (has_ended_) return;
  bytes_.resize(from + done);
  break_off("the model's server ended it without a finish reason");
}

void SharedResponse::break_off(std::string_view why) {
  cut_ = failed_ = true;
  bytes_ +=
      "data: " +
      api_error("the answer broke off: " + std::string(why), "upstream_error", "answer_broke_off") +
      "\n\n";
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
    if (cut_) {
      // An event has said so.
    } else if (!headless && events_) {
      // What was left of a torn event is dropped: it would only break a client's parser before it
      // reads what happened.
      bytes_.resize(given_ - base_);
      break_off(error.message);
      given_ = base_ + bytes_.size();
    } else {
      broken_ = !headless;
    }
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
  if (events_) return recorder_->finish();
  const MutexLock lock(mutex_);
  if (bytes_.size() > options_.max_record.value() || !gathers_) {
    return fail(ErrorCode::kLimitExceeded, "it is larger than answers.max_answer");
  }
  return ApiRecord::of_body(*options_.record, bytes_);
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

void SharedResponse::count_tokens(std::string_view bytes) {
  const MutexLock lock(mutex_);
  scan_.feed(bytes);
  if (events_) usage_.events += count_events(bytes);
}

SharedResponse::Usage SharedResponse::usage() const {
  const MutexLock lock(mutex_);
  Usage usage = usage_;
  if (!usage.prompt_tokens.has_value()) usage.prompt_tokens = scan_.prompt_tokens();
  if (!usage.output_tokens.has_value()) usage.output_tokens = scan_.output_tokens();
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

void SharedResponse::abandon() {
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
