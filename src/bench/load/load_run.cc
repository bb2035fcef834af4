// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/load/load_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "bench/load/answer_timing.h"
#include "bench/load/request_bodies.h"
#include "foundation/http/caller.h"
#include "foundation/http/client.h"
#include "foundation/http/io_threads.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"

namespace afterimage {
namespace {

constexpr std::size_t kAheadBytes = std::size_t{128} << 20U;  // of bodies that wait to be sent
constexpr std::size_t kAheadBodies = 1024;
constexpr std::size_t kFirstBodies = 64;  // that are made before the clock starts
constexpr std::size_t kMostNames = 1000;  // replicas, routes, failures
constexpr std::size_t kQuotedError = 160;
constexpr Duration kProgressEvery = std::chrono::milliseconds(200);

std::string target_of(const Url& server, std::string_view path) {
  std::string base = server.target;
  while (base.ends_with('/')) base.pop_back();
  if (!base.ends_with("/v1")) base += "/v1";
  return base + std::string(path);
}

CacheWord cache_word(std::string_view value) {
  if (value == "HIT") return CacheWord::kHit;
  if (value == "MISS") return CacheWord::kMiss;
  if (value == "BYPASS") return CacheWord::kBypass;
  return value == "REFRESH" ? CacheWord::kRefresh : CacheWord::kNone;
}

/// Of one printable line, for a table.
std::string short_line(std::string_view text) {
  std::string line(text.substr(0, kQuotedError));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) c = ' ';
  }
  return line;
}

/// A body and the request that it belongs to.
struct ReadyBody {
  std::size_t index = 0;
  std::shared_ptr<const std::string> body;
};

/// What the scheduler, the maker of bodies and the responses share.
class LoadState {
 public:
  LoadState(const LoadTrace& load, const LoadRunOptions& chosen, const Clock& time)
      : trace(load), options(chosen), clock_(time) {
    result_.samples.resize(load.requests.size());
  }

  [[nodiscard]] Duration now() const { return clock_.now() - begin_; }

  /// The clock starts once the first bodies are there: making them is not the server's time.
  void start() {
    const MutexLock lock(mutex_);
    const std::size_t enough = std::min(kFirstBodies, trace.requests.size());
    while (ahead_.size() < enough && ahead_bytes_ <= kAheadBytes) changed_.wait(mutex_);
    begin_ = clock_.now();
  }

  // Of the maker of bodies. False: nobody wants more.
  bool offer(ReadyBody ready) {
    const MutexLock lock(mutex_);
    while (!stopped_ && (ahead_bytes_ > kAheadBytes || ahead_.size() >= kAheadBodies)) {
      room_.wait(mutex_);
    }
    ahead_bytes_ += ready.body->size();
    ahead_.push_back(std::move(ready));
    changed_.notify_all();
    return !stopped_;
  }
  void stop() {
    const MutexLock lock(mutex_);
    stopped_ = true;
    room_.notify_all();
  }

  // Of responses.
  void ended(std::size_t index, LoadSample sample, std::string_view replica, std::string_view route,
             const std::string& failure) {
    const MutexLock lock(mutex_);
    const LoadSample& begun = result_.samples[index];
    sample.due = begun.due;
    sample.sent = begun.sent;
    sample.sent_bytes = begun.sent_bytes;
    sample.replica = index_of(result_.replicas, replica);
    sample.route = index_of(result_.routes, route);
    if (sample.outcome != LoadOutcome::kAnswered) {
      ++progress_.failed;
      if (result_.failures.size() < kMostNames || result_.failures.contains(failure)) {
        ++result_.failures[failure];
      }
    }
    result_.length = std::max(result_.length, sample.end);
    result_.samples[index] = sample;
    ++progress_.ended;
    --in_flight_;
    const auto session = busy_.find(trace.requests[index].session);
    if (session != busy_.end() && --session->second == 0) busy_.erase(session);
    changed_.notify_all();
  }

  /// The next request that may be sent now; nullopt: none before `until`, or before something
  /// changes. A request is due when it is sent, if the loop is closed.
  std::optional<ReadyBody> next(Duration until) {
    const MutexLock lock(mutex_);
    if (progress_.ended == trace.requests.size()) return std::nullopt;
    const auto limit = options.open ? options.max_in_flight : options.clients;
    if (in_flight_ < limit) {
      if (auto ready = options.open ? due_now() : whose_session_is_free()) return ready;
    }
    Duration wake = until;
    if (options.open && in_flight_ < limit && !ahead_.empty()) {
      wake = std::min(wake, trace.requests[ahead_.front().index].at);
    }
    const Duration wait = wake - now();
    if (wait <= Duration(0)) return std::nullopt;
    const std::size_t seen = progress_.ended;
    const bool was_empty = ahead_.empty();
    (void)changed_.wait_for(mutex_, wait, [&]() AFI_REQUIRES(mutex_) {
      return progress_.ended != seen || (was_empty && !ahead_.empty());
    });
    return std::nullopt;
  }

  [[nodiscard]] LoadProgress progress() const {
    const MutexLock lock(mutex_);
    return progress_;
  }
  [[nodiscard]] LoadResult take_result() {
    const MutexLock lock(mutex_);
    return std::move(result_);
  }

  const LoadTrace& trace;
  const LoadRunOptions& options;

 private:
  std::optional<ReadyBody> due_now() AFI_REQUIRES(mutex_) {
    if (ahead_.empty() || trace.requests[ahead_.front().index].at > now()) return std::nullopt;
    return sent(ahead_.begin(), trace.requests[ahead_.front().index].at);
  }
  /// Turns of a session wait for the turn before, and let others pass.
  std::optional<ReadyBody> whose_session_is_free() AFI_REQUIRES(mutex_) {
    const auto free =
        std::ranges::find_if(ahead_, [&](const ReadyBody& ready) AFI_REQUIRES(mutex_) {
          return !busy_.contains(trace.requests[ready.index].session);
        });
    if (free == ahead_.end()) return std::nullopt;
    return sent(free, now());
  }
  ReadyBody sent(const std::deque<ReadyBody>::iterator& which, Duration due) AFI_REQUIRES(mutex_) {
    ReadyBody ready = std::move(*which);
    ahead_.erase(which);
    ahead_bytes_ -= ready.body->size();
    room_.notify_all();
    LoadSample& sample = result_.samples[ready.index];
    sample.due = due;
    sample.sent = now();
    sample.sent_bytes = ready.body->size();
    ++in_flight_;
    ++progress_.sent;
    ++busy_[trace.requests[ready.index].session];
    return ready;
  }
  static std::uint16_t index_of(std::vector<std::string>& names, std::string_view name) {
    const auto known = std::ranges::find(names, name);
    if (known != names.end()) return static_cast<std::uint16_t>(known - names.begin());
    if (names.size() > kMostNames) return 0;
    names.emplace_back(name);
    return static_cast<std::uint16_t>(names.size() - 1);
  }

  const Clock& clock_;
  Duration begin_{0};
  mutable Mutex mutex_;
  TimedCondition changed_;  // something can be sent, perhaps, or all has ended
  TimedCondition room_;     // for more bodies
  std::deque<ReadyBody> ahead_ AFI_GUARDED_BY(mutex_);
  std::size_t ahead_bytes_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint32_t in_flight_ AFI_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> busy_ AFI_GUARDED_BY(mutex_);  // by session
  bool stopped_ AFI_GUARDED_BY(mutex_) = false;
  LoadProgress progress_ AFI_GUARDED_BY(mutex_);
  LoadResult result_ AFI_GUARDED_BY(mutex_);
};

/// Measures one response.
class LoadListener final : public HttpListener {
 public:
  LoadListener(std::shared_ptr<LoadState> state, std::size_t index)
      : state_(std::move(state)), index_(index), timing_(state_->options.stream) {}

  void on_head(unsigned status, HttpHeaders headers) override {
    sample_.status = static_cast<std::uint16_t>(status);
    const auto header = [&](std::string_view name) { return headers.find(name).value_or(""); };
    sample_.cache = cache_word(header("X-Cache"));
    replica_ = short_line(header("X-Afterimage-Replica"));
    route_ = short_line(header("X-Afterimage-Route"));
  }
  void on_bytes(std::string_view bytes) override {
    if (sample_.status == 200) {
      timing_.feed(bytes, state_->now());
    } else if (error_.size() < kQuotedError) {
      error_ += bytes.substr(0, kQuotedError);
    }
  }
  void on_end() override {
    if (sample_.status != 200) {
      finish(LoadOutcome::kStatus, fmt::format("{}: {}", sample_.status, short_line(error_)));
      return;
    }
    const bool valid = timing_.end();
    finish(valid ? LoadOutcome::kAnswered : LoadOutcome::kInvalid, timing_.failure());
  }
  void on_error(const Error& error) override { finish(LoadOutcome::kBroken, error.message); }

 private:
  void finish(LoadOutcome outcome, const std::string& failure) {
    sample_.end = state_->now();
    sample_.outcome = outcome;
    if (state_->options.stream) {
      sample_.first = timing_.first();
      sample_.last = timing_.last();
    }
    sample_.output_tokens = timing_.output_tokens();
    sample_.prompt_tokens = timing_.prompt_tokens();
    sample_.cached_tokens = timing_.cached_tokens();
    state_->ended(index_, sample_, replica_, route_, short_line(failure));
  }

  const std::shared_ptr<LoadState> state_;
  const std::size_t index_;
  AnswerTiming timing_;
  LoadSample sample_;
  std::string replica_;
  std::string route_;
  std::string error_;
};

HttpCall call_for(const LoadRunOptions& options, std::shared_ptr<const std::string> body) {
  HttpCall call{.url = options.server, .headers = options.headers, .body = std::move(body)};
  call.url.target = target_of(options.server, "/chat/completions");
  call.headers.set("Content-Type", "application/json");
  call.idle_timeout = options.timeout;
  call.deadline = options.timeout;
  return call;
}

/// Makes bodies ahead, on a thread of its own.
void make_bodies(LoadState& state) {
  RequestBodies bodies(state.trace, {.model = state.options.model, .stream = state.options.stream});
  for (std::size_t index = 0; index < state.trace.requests.size(); ++index) {
    if (!state.offer({.index = index, .body = bodies.next()})) return;
  }
}

}  // namespace

Result<ListedModels> listed_models(const LoadRunOptions& options) {
  HttpQuestion question{.url = options.server};
  question.url.target = target_of(options.server, "/models");
  for (const auto& [name, value] : options.headers) question.headers[name] = value;
  AFI_TRY(const HttpAnswer answer, http_get(question));
  ListedModels models;
  if (answer.status != 200) {
    models.refusal = {ErrorCode::kUnavailable,
                      fmt::format("{} answered {}: {}", question.url.target, answer.status,
                                  short_line(answer.body))};
    return models;
  }
  const auto json = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("data") && json["data"].is_array()) {
    for (const auto& model : json["data"]) {
      if (model.is_object() && model.contains("id") && model["id"].is_string()) {
        models.names.push_back(model["id"].get<std::string>());
      }
    }
  }
  if (models.names.empty()) {
    models.refusal = {
        ErrorCode::kCorruption,
        fmt::format("{} is no list of models: {}", question.url.target, short_line(answer.body))};
  }
  return models;
}

Result<LoadResult> run_load(const LoadTrace& trace, const LoadRunOptions& options,
                            const Clock& clock, const std::function<void(LoadProgress)>& progress) {
  if (trace.requests.empty() || options.clients == 0 || options.max_in_flight == 0) {
    return fail(ErrorCode::kInvalidArgument, "there are no requests, or no clients to send them");
  }
  IoThreads threads(options.threads);
  HttpCaller caller({.max_idle = options.max_in_flight}, threads);
  const auto state = std::make_shared<LoadState>(trace, options, clock);
  std::jthread maker([state] { make_bodies(*state); });
  state->start();
  Duration report_at = kProgressEvery;
  while (true) {
    if (auto ready = state->next(report_at)) {
      caller.call(call_for(options, std::move(ready->body)),
                  std::make_shared<LoadListener>(state, ready->index));
      continue;
    }
    const LoadProgress done = state->progress();
    if (done.ended == trace.requests.size()) break;
    if (state->now() < report_at) continue;
    report_at = state->now() + kProgressEvery;
    if (progress) progress(done);
  }
  state->stop();
  threads.stop();
  return state->take_result();
}

}  // namespace afterimage
