// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

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
#include "foundation/http/url.h"

namespace afterimage {

/// One request to another server.
struct HttpCall {
  std::string method = "POST";
  Url url;
  /// Without Host, Content-Length, Transfer-Encoding and Connection.
  HttpHeaders headers;
  std::shared_ptr<const std::string> body;  // nullptr: none
  Duration connect_timeout = std::chrono::seconds(5);
  Duration idle_timeout = std::chrono::seconds(300);  // between two pieces of the answer
  std::optional<Duration> deadline = std::nullopt;    // for all of it
  /// Which numeric addresses may be connected to, asked after the name was resolved: what a name
  /// means may change between two looks. Empty: all.
  std::function<bool(std::string_view numeric)> may_connect = {};
};

/// Hears the answer to one call: a head, then bytes, then the end; or an error at any point, and
/// nothing after it. On one of the caller's threads, one at a time.
class HttpListener {
 public:
  virtual ~HttpListener() = default;
  virtual void on_head(unsigned status, HttpHeaders headers) = 0;
  virtual void on_bytes(std::string_view bytes) = 0;
  virtual void on_end() = 0;
  /// kUnavailable: nobody there, no answer in time, a connection that broke off. kCorruption: what
  /// was answered is no HTTP. kInvalidArgument: may_connect said no; a header that is none.
  /// kCancelled.
  virtual void on_error(const Error& error) = 0;
};

/// A call on its way. Dropping it changes nothing; the call goes on.
/// Threads  Any.
class HttpCallHandle {
 public:
  struct State;
  HttpCallHandle() = default;
  explicit HttpCallHandle(std::weak_ptr<State> state) : state_(std::move(state)) {}
  /// The listener hears kCancelled, unless it has heard the end.
  void cancel() const;
  /// Nothing more is read until resume(): whoever sends has to wait.
  void pause() const;
  void resume() const;

 private:
  std::weak_ptr<State> state_;
};

/// Calls other servers, and keeps connections to them for the next call.
///
/// A kept connection that turns out to be closed before the first byte of an answer is replaced
/// once. Redirections are not followed.
///
/// Threads  Any; a call runs on the thread that makes it, if that is one of `threads`.
/// Source   src/http/DESIGN.md.
class HttpCaller {
 public:
  struct Options {
    std::uint32_t max_idle = 128;              // connections kept, a thread and server
    Duration keep = std::chrono::seconds(30);  // how long one is kept unused
  };
  /// `threads` outlive the caller.
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
