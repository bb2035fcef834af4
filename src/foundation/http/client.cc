// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/client.h"

#include <optional>

#include "foundation/http/caller.h"
#include "foundation/platform/timed_condition.h"

namespace afterimage {
namespace {

/// Collects the response for the waiting thread.
class ResponseCollector final : public HttpListener {
 public:
  explicit ResponseCollector(Bytes limit) : limit_(limit) {}

  void on_head(unsigned status, HttpHeaders /*headers*/) override { answer_.status = status; }
  void on_bytes(std::string_view bytes) override {
    too_large_ |= answer_.body.size() + bytes.size() > limit_.value();
    if (!too_large_) answer_.body.append(bytes);
  }
  void on_end() override { settle(std::nullopt); }
  void on_error(const Error& error) override { settle(error); }

  /// False: not complete within `timeout`.
  bool wait(Duration timeout) {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, timeout, [this] { return settled_; });
  }
  /// Requires that wait() returned true.
  Result<HttpAnswer> take(const std::string& server) {
    const MutexLock lock(mutex_);
    if (error_.has_value()) return std::unexpected(*error_);
    if (too_large_) {
      return fail(ErrorCode::kLimitExceeded, server + ": the response is larger than allowed");
    }
    return std::move(answer_);
  }

 private:
  void settle(std::optional<Error> error) {
    const MutexLock lock(mutex_);
    error_ = std::move(error);
    settled_ = true;
    changed_.notify_all();
  }

  const Bytes limit_;
  HttpAnswer answer_;  // used on the I/O thread only, until the call is complete
  bool too_large_ = false;
  Mutex mutex_;
  TimedCondition changed_;
  std::optional<Error> error_;
  bool settled_ = false;
};

Result<HttpAnswer> send(const HttpQuestion& question, const char* method) {
  IoThreads threads(1);
  HttpCaller caller({.trust = question.trust}, threads);
  const auto collector = std::make_shared<ResponseCollector>(question.max_answer);
  HttpCall call{.method = method,
                .url = question.url,
                .headers = {{"User-Agent", "afterimage"}},
                .body = nullptr,
                .connect_timeout = question.deadline,
                .idle_timeout = question.deadline};
  if (call.method == "POST") {
    call.headers.set("Content-Type", question.content_type);
    call.body = std::make_shared<const std::string>(question.body);
  }
  for (const auto& [name, value] : question.headers) call.headers.set(name, value);
  caller.call(std::move(call), collector);
  const bool settled = collector->wait(question.deadline);
  threads.stop();
  const std::string server = "http://" + question.url.host + ":" + question.url.port;
  if (!settled) return fail(ErrorCode::kTimeout, server + ": no response in time");
  return collector->take(server + question.url.target);
}

}  // namespace

Result<HttpAnswer> http_post(const HttpQuestion& question) { return send(question, "POST"); }
Result<HttpAnswer> http_get(const HttpQuestion& question) { return send(question, "GET"); }

}  // namespace afterimage
