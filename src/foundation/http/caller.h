// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "afterimage/units.h"
#include "foundation/http/headers.h"
#include "foundation/http/io_threads.h"
#include "foundation/http/tls.h"
#include "foundation/http/url.h"

namespace afterimage {

/// A text that is sent in place of the bytes [begin, end) of a body, which others may hold, too.
struct BodySplice {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string text;
};

/// One request to another server.
struct HttpCall {
  std::string method = "POST";
  Url url;
  /// Without Host, Content-Length, Transfer-Encoding and Connection, which the caller sets.
  HttpHeaders headers;
  std::shared_ptr<const std::string> body;          // nullptr: none
  std::optional<BodySplice> splice = std::nullopt;  // within the body
  Duration connect_timeout = std::chrono::seconds(5);
  /// For the head of the response, then between two pieces of its body.
  Duration idle_timeout = std::chrono::seconds(300);
  std::optional<Duration> deadline = std::nullopt;  // for the whole call
  bool resends = true;  // once, if a reused connection turns out to be closed
  bool once = false;    // on a new connection, so that it is sent once and never again
  /// Decides which numeric addresses may be connected to. Called after the name was resolved,
  /// because a name may resolve differently each time. Empty: all are allowed.
  std::function<bool(std::string_view numeric)> may_connect = {};
};

/// How far a call came that failed.
enum class HttpStage : unsigned char {
  kUnknown,     // or it was cancelled
  kNotSent,     // there was no connection: the server has nothing of the request
  kUnanswered,  // the server had the request, or a part of it, and not a byte came back
  kBroken,      // the response began and broke off, or is not HTTP
};

struct HttpFailure {
  Error error;
  HttpStage stage = HttpStage::kUnknown;
  bool reused = false;  // on a connection that had served others, and may have been closed since
  bool resent = false;  // and the request was sent once more
};

/// Receives the response to one call: the head, then bytes, then the end; or an error at any point,
/// and nothing after it. Called on one of the I/O threads, one call at a time.
class HttpListener {
 public:
  virtual ~HttpListener() = default;
  virtual void on_head(unsigned status, HttpHeaders headers) = 0;
  virtual void on_bytes(std::string_view bytes) = 0;
  virtual void on_end() = 0;
  /// kUnavailable: nothing is listening, or the connection broke. kTimeout: no connection, no
  /// response or not the next bytes of one in time, or the deadline passed. kCorruption: the
  /// response is not valid HTTP. kInvalidArgument: may_connect refused the address, or a request
  /// header is invalid. kLimitExceeded: this process has no file descriptor or port left.
  /// kCancelled: cancel() was called.
  virtual void on_error(const Error& error) = 0;
  /// The same for listeners that ask how far the call came; only one of the two is called.
  virtual void on_failure(const HttpFailure& failure) { on_error(failure.error); }
};

/// A call in progress. Dropping the handle does not cancel the call.
///
/// Threads  Any.
class HttpCallHandle {
 public:
  struct State;
  HttpCallHandle() = default;
  explicit HttpCallHandle(std::weak_ptr<State> state) : state_(std::move(state)) {}
  /// The listener receives kCancelled, unless the call has already ended.
  void cancel() const;
  /// Stops reading until resume(), so that the sender has to wait.
  void pause() const;
  void resume() const;

 private:
  std::weak_ptr<State> state_;
};

/// An HTTP client that streams responses to listeners and reuses connections.
///
/// A reused connection that turns out to be closed before the first byte of a response is replaced
/// once, by a new one. Redirects are not followed.
///
/// Threads  Any; a call runs on the calling thread if that is one of `threads`.
/// Source   src/foundation/http/DESIGN.md.
class HttpCaller {
 public:
  struct Options {
    std::uint32_t max_idle = 128;                     // idle connections per thread and server
    Duration keep = std::chrono::seconds(30);         // how long an idle connection is kept open
    std::shared_ptr<const TlsTrust> trust = nullptr;  // nullptr: the system's authorities
  };
  /// `threads` must outlive the caller.
  HttpCaller(const Options& options, IoThreads& threads);
  ~HttpCaller();
  HttpCaller(const HttpCaller&) = delete;
  HttpCaller& operator=(const HttpCaller&) = delete;

  HttpCallHandle call(HttpCall call, std::shared_ptr<HttpListener> listener);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace afterimage
