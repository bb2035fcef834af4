// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "foundation/http/server_impl.h"
#include "foundation/http/server_stream.h"
#include "foundation/http/tls_impl.h"

namespace afterimage {

/// The server's own response to an invalid request.
struct HttpRefusal {
  unsigned status = 400;
  std::string_view why;
};

/// A connection's share of the server-wide limit on body bytes, released when destroyed.
class BodyShare {
 public:
  explicit BodyShare(std::atomic<std::uint64_t>& all) : all_(all) {}
  ~BodyShare() { all_ -= held_; }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;
  /// False: the total of all connections would exceed `limit`.
  bool grow_to(std::uint64_t size, std::uint64_t limit) {
    if (size <= held_) return true;
    const std::uint64_t more = size - held_;
    if (all_.fetch_add(more) + more > limit) {
      all_ -= more;
      return false;
    }
    held_ = size;
    return true;
  }

 private:
  std::atomic<std::uint64_t>& all_;
  std::uint64_t held_ = 0;
};

/// One client's connection: reads requests one by one (connection_read.cc), calls the handler, writes
/// the responses (connection_write.cc).
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<HttpServer::State> server, net::Socket socket, unsigned thread)
      : server_(std::move(server)),
        thread_(thread),
        stream_(std::move(socket)),
        identity_(server_->tls.load()),
        event_(stream_.socket().get_executor(), net::Timer::time_point::max()),
        alarm_(stream_.socket().get_executor(), net::Timer::time_point::max()) {}

  net::Awaitable<void> run();

  [[nodiscard]] bool idle() const { return idle_; }
  /// Call on its own thread, while it is idle: it closes unless a request comes soon.
  void end_soon() { set_timeout(HttpServer::kLastRequest); }
  /// Call on its own thread: its client does not read, and others need the memory.
  void end_unread();
  /// Call on its own thread.
  void shut();
  /// Call on its own thread: something that the connection waits for has happened.
  void wake() {
    woken_ = true;
    event_.cancel();
  }
  void take(HttpReply reply, bool lost);
  /// Call on its own thread: begins the watch with this number, unless it is over.
  void begin_watch(std::uint64_t watch);

 private:
  /// False: there will be no requests. Other connections go on meanwhile.
  net::Awaitable<bool> shake_hands();

  /// So that the client knows that nothing is missing. A client that does not read it is left.
  net::Awaitable<void> say_goodbye();
  net::Awaitable<bool> serve_one();

  /// Waits for a request. False: there will be none.
  net::Awaitable<bool> first_byte();

  /// One that came at the moment when its time was over: closing now would reset it.
  void take_last_request();

  /// False: the client disconnected or the read timed out; `late` tells which.
  net::Awaitable<bool> read_more(std::size_t at_most, bool& late);

  /// Parses as much as the buffer holds.
  net::Failure parse();
  net::Awaitable<std::optional<HttpRefusal>> read_head(const HttpLimits& limits);
  std::optional<HttpRefusal> check_head();

  /// Before the body: the parser adds trailers to the headers, where they could pass for a second
  /// Host or a key.
  void keep_headers();
  net::Awaitable<std::optional<HttpRefusal>> read_body(const HttpLimits& limits, BodyShare& share);

  /// A body of known length is read to where it stays.
  net::Awaitable<std::optional<HttpRefusal>> read_in_place(const HttpLimits& limits,
                                                           BodyShare& share);

  HttpRefusal overloaded();
  HttpRefusal too_slow();
  HttpRefusal refusal_of(net::Failure error);
  net::Awaitable<void> refuse(HttpRefusal refusal, const HttpLimits& limits);
  void hand_over();

  struct Manner {
    bool keep = true;
    bool head = false;  // the request was HEAD
    bool chunk = true;  // HTTP/1.1
  };

  net::Awaitable<bool> write(const HttpReply& reply, Manner manner, const HttpLimits& limits);
  net::Awaitable<bool> write_text(const HttpReply& reply, std::string head, Manner manner,
                                  const HttpLimits& limits);

  net::Awaitable<bool> send(std::string_view head, std::string_view body, const HttpLimits& limits);

  /// The client has not read what it was sent: the rest waits in memory.
  void wait_for_client(const HttpLimits& limits);

  /// Writes a BodySource as it is if its length is known, as chunks, or, for clients without chunked
  /// encoding, until the connection is closed.
  net::Awaitable<bool> write_source(BodySource& source, std::string head, Manner manner,
                                    const HttpLimits& limits);

  static void frame(BodySource::Piece& piece);

  /// Waits for wake(), and watches for the client to disconnect.
  net::Awaitable<void> wait_for_event();

  /// Watches for a disconnect while a response is made, unless it is made at once: most are, and to begin a watch
  /// and to end it takes as long as a hundredth of them. A client that closes its side has left. One that sends
  /// more bytes has pipelined a request, and a disconnect is visible only after it.
  void watch_soon();
  void watch_all_soon();
  void watch();
  /// Under TLS only reading tells a request that was pipelined from the client's goodbye.
  void read_ahead();
  /// The read that was cancelled is over before the next begins.
  net::Awaitable<void> finish_reading_ahead();
  void stop_watching();
  void check_for_disconnect();

  /// Sets the timeout of the following operations, which are cancelled when it passes. The timer is
  /// reset only if it would fire too late, so this is free in the common case.
  void set_timeout(Duration timeout);
  void set_alarm();

  std::shared_ptr<HttpServer::State> server_;
  unsigned thread_;
  ServerStream stream_;
  std::shared_ptr<const TlsIdentity> identity_;  // nullptr: plain HTTP
  net::Timer event_;
  net::Timer alarm_;
  net::Timer::time_point until_;
  bool too_late_ = false;
  net::beast::flat_buffer buffer_;
  std::optional<net::beast::http::request_parser<net::beast::http::string_body>> parser_;
  HttpHeaders headers_;        // of the current request
  HttpHeaders added_headers_;  // of its response
  std::string peer_;
  std::shared_ptr<Exchange> exchange_;  // of the current request
  std::optional<HttpReply> reply_;
  struct Holding {
    std::size_t own = 0;
    HeldBytes shared;
  };
  Holding holding_;  // of the response that is written
  std::optional<UnreadResponses::Wait> unread_;
  bool is_cut_ = false;  // see end_unread()
  bool idle_ = false;
  bool gone_ = false;  // the client disconnected, or the server is closing
  bool woken_ = false;
  enum class Watch : unsigned char { kNone, kSoon, kBegun };
  Watch watching_ = Watch::kNone;
  bool reading_ahead_ = false;  // into buffer_, while a response is made
  std::uint64_t watch_ = 0;     // number of the current watch
};

}  // namespace afterimage
