// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <exception>
#include <new>
#include <tuple>

#include "foundation/http/server_impl.h"
#include "foundation/http/server_stream.h"
#include "foundation/http/tls_impl.h"

namespace afterimage {
namespace {

namespace asio = net::asio;
namespace http = net::beast::http;
using net::Awaitable;
using net::Failure;
using net::kQuiet;

/// Bytes per write to a socket: a client that reads this much within the write timeout is fast
/// enough.
constexpr std::size_t kWriteAtOnce = 256 * 1024;
constexpr std::size_t kReadAtOnce = 64 * 1024;
constexpr std::size_t kHeadAtOnce = 4096;
constexpr std::size_t kIdleBuffer = 1024;
constexpr std::size_t kBodyAtOnce = 1024 * 1024;
constexpr std::size_t kAhead = 4096;
/// Bytes read and discarded from a refused client before the connection is closed: closing at once
/// would reset it, and the client might never see the refusal.
constexpr std::size_t kLinger = 4 * 1024 * 1024;
constexpr std::size_t kUsualHeaders = 8;  // of a request
constexpr std::size_t kUsualHead = 512;   // bytes of a response

using Parser = http::request_parser<http::string_body>;

std::string_view reason_of(unsigned status) {
  return std::string_view(http::obsolete_reason(static_cast<http::status>(status)));
}

/// Whether a header line is folded, which other parsers may read as two lines (RFC 9112 5.2).
bool has_folded_line(std::string_view head) {
  return head.contains("\n ") || head.contains("\n\t");
}

/// Whether the target is in origin form and visible ASCII, which all parsers read alike.
bool is_target(std::string_view target) {
  return target.starts_with('/') &&
         std::ranges::all_of(target, [](char c) { return c > ' ' && c < 0x7F; });
}

bool has_no_body(unsigned status) { return status == 204 || status == 304 || status < 200; }

/// The server's own response to an invalid request.
struct Refusal {
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

}  // namespace

/// One client's connection: reads requests one by one, calls the handler, writes the responses.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<HttpServer::State> server, net::Socket socket, unsigned thread)
      : server_(std::move(server)),
        thread_(thread),
        stream_(std::move(socket)),
        identity_(server_->tls.load()),
        event_(stream_.socket().get_executor(), net::Timer::time_point::max()),
        alarm_(stream_.socket().get_executor(), net::Timer::time_point::max()) {}

  Awaitable<void> run() {
    const auto self = shared_from_this();
    server_->connections[thread_].insert(this);
    Failure error;
    stream_.socket().set_option(net::Tcp::no_delay(true), error);
    const auto from = stream_.socket().remote_endpoint(error);
    if (!error) peer_ = from.address().to_string();
    try {
      bool again = !error;
      if (again && identity_ != nullptr) again = co_await shake_hands();
      while (again) {  // g++ 12 runs a co_await in the condition even if `again` is false
        again = co_await first_byte();
        if (again) again = co_await serve_one();
      }
      if (stream_.is_secure() && !gone_) co_await say_goodbye();
    } catch (const std::bad_alloc&) {  // fails this connection only
    }
    if (exchange_ != nullptr) exchange_->client_left();
    alarm_.cancel();
    stream_.socket().shutdown(net::Tcp::socket::shutdown_both, error);
    stream_.socket().close(error);
    server_->connections[thread_].erase(this);
    server_->closed();
  }

  [[nodiscard]] bool idle() const { return idle_; }
  /// Call on its own thread, while it is idle: it closes unless a request comes soon.
  void end_soon() { set_timeout(HttpServer::kLastRequest); }
  /// Call on its own thread: its client does not read, and others need the memory.
  void end_unread() {
    is_cut_ = true;
    Failure ignored;
    stream_.socket().cancel(ignored);
    wake();
  }
  /// Call on its own thread.
  void shut() {
    Failure ignored;
    stream_.socket().close(ignored);
    gone_ = true;
    wake();
  }
  /// Call on its own thread: something that the connection waits for has happened.
  void wake() {
    woken_ = true;
    event_.cancel();
  }
  void take(HttpReply reply, bool lost) {
    if (lost) reply = server_->options.explain(500, "the request was dropped");
    reply_ = std::move(reply);
    wake();
  }

 private:
  /// False: there will be no requests. Other connections go on meanwhile.
  Awaitable<bool> shake_hands() {
    const auto limits = server_->current_limits();
    set_timeout(limits->header_timeout);
    idle_ = true;  // nothing is owed to the client yet
    const Failure unreadable = co_await stream_.wait_readable();
    if (unreadable) co_return false;
    char first = 0;
    const auto got = ::recv(stream_.socket().native_handle(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got == 1 && first >= 'A' && first <= 'Z') {  // a method: TLS begins with the byte 22
      ++server_->failed_handshakes;
      idle_ = false;
      co_await refuse({.status = 400, .why = "this port speaks TLS only: use https://"}, *limits);
      co_return false;
    }
    const Failure failed = co_await stream_.shake_hands(identity_->impl().context);
    idle_ = false;
    if (failed) ++server_->failed_handshakes;
    co_return !failed && !gone_;
  }

  /// So that the client knows that nothing is missing. A client that does not read it is left.
  Awaitable<void> say_goodbye() {
    while (reading_ahead_) co_await finish_reading_ahead();
    set_timeout(std::chrono::seconds(1));
    co_await stream_.say_goodbye();
  }

  Awaitable<bool> serve_one() {
    const auto limits = server_->current_limits();
    buffer_.max_size(limits->headers.value() + kReadAtOnce);
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(limits->headers.value()));
    parser_->body_limit(limits->body.value());
    BodyShare share(server_->bodies);
    std::optional<Refusal> wrong = co_await read_head(*limits);
    if (!wrong.has_value() && !gone_) wrong = check_head();
    keep_headers();
    if (!wrong.has_value() && !gone_) wrong = co_await read_body(*limits, share);
    if (gone_) co_return false;
    if (wrong.has_value()) {
      co_await refuse(*wrong, *limits);
      co_return false;
    }
    ++server_->requests;
    const bool keep = parser_->keep_alive();
    const bool head_only = parser_->get().method() == http::verb::head;
    const bool chunked = parser_->get().version() >= 11;
    hand_over();
    while (!reply_.has_value() && !gone_) co_await wait_for_event();
    if (gone_) co_return false;
    const HttpReply reply = *std::exchange(reply_, std::nullopt);
    const bool keep_alive = keep && !server_->draining;
    const bool written =
        co_await write(reply, {.keep = keep_alive, .head = head_only, .chunk = chunked}, *limits);
    if (written) {
      exchange_->complete();
      exchange_.reset();
      stop_watching();
      while (reading_ahead_) co_await finish_reading_ahead();
    }
    parser_.reset();
    co_return written&& keep_alive;
  }

  /// Waits for a request. False: there will be none.
  Awaitable<bool> first_byte() {
    if (buffer_.size() > 0) co_return true;  // it was pipelined
    idle_ = true;
    set_timeout(server_->draining ? HttpServer::kLastRequest
                                  : server_->current_limits()->idle_timeout);
    // There may be thousands of idle connections: they keep a small buffer.
    if (buffer_.capacity() > kIdleBuffer) buffer_.shrink_to_fit();
    const auto [error, size] = co_await stream_.wait_for_some(buffer_.prepare(kIdleBuffer));
    idle_ = false;
    buffer_.commit(size);
    if (error && too_late_ && !gone_) take_last_request();
    co_return buffer_.size() > 0;
  }

  /// One that came at the moment when its time was over: closing now would reset it.
  void take_last_request() {
    Failure ignored;
    buffer_.commit(stream_.read_now(buffer_.prepare(kIdleBuffer), ignored));
  }

  /// False: the client disconnected or the read timed out; `late` tells which.
  Awaitable<bool> read_more(std::size_t at_most, bool& late) {
    const std::size_t room = std::min(at_most, buffer_.max_size() - buffer_.size());
    const auto [error, size] = co_await stream_.read_some(buffer_.prepare(room));
    late = too_late_;
    if (error && !late) gone_ = true;
    if (error || late) co_return false;
    buffer_.commit(size);
    co_return true;
  }

  /// Parses as much as the buffer holds.
  Failure parse() {
    Failure error;
    while (buffer_.size() > 0 && !parser_->is_done()) {
      const bool had_head = parser_->is_header_done();
      const std::size_t used = parser_->put(buffer_.data(), error);
      const bool head = !had_head && parser_->is_header_done();
      const std::string_view bytes(static_cast<const char*>(buffer_.data().data()), used);
      if (head && has_folded_line(bytes)) error = http::error::bad_field;
      buffer_.consume(used);
      if (error || head) break;
    }
    return error;
  }

  Awaitable<std::optional<Refusal>> read_head(const HttpLimits& limits) {
    set_timeout(limits.header_timeout);
    while (true) {
      const Failure error = parse();
      if (error && error != http::error::need_more) co_return refusal_of(error);
      if (parser_->is_header_done()) co_return std::nullopt;
      if (buffer_.size() > limits.headers.value()) co_return refusal_of(http::error::header_limit);
      bool late = false;
      if (!co_await read_more(kHeadAtOnce, late))
        co_return late ? std::optional(too_slow()) : std::nullopt;
    }
  }

  std::optional<Refusal> check_head() {
    const auto& head = parser_->get();
    const std::size_t hosts = head.count(http::field::host);
    if (hosts > 1 || (hosts == 0 && head.version() >= 11)) {
      ++server_->malformed;
      return Refusal{.status = 400, .why = "exactly one Host header is needed"};
    }
    // RFC 9112 6.3 lets a server take equal ones for one; others on the way may not.
    if (head.count(http::field::content_length) > 1) {
      ++server_->malformed;
      return Refusal{.status = 400, .why = "at most one Content-Length header is allowed"};
    }
    if (!is_target(std::string_view(head.target()))) {
      ++server_->malformed;
      return Refusal{.status = 400, .why = "the request target must be a path in visible ASCII"};
    }
    const std::size_t codings = head.count(http::field::transfer_encoding);
    const std::string_view coding(head[http::field::transfer_encoding]);
    if (codings > 1 || (codings == 1 && !same_header(coding, "chunked"))) {
      ++server_->malformed;
      return Refusal{.status = 501, .why = "the only supported Transfer-Encoding is chunked"};
    }
    const auto length = parser_->content_length();
    if (length.has_value() && *length > server_->current_limits()->body.value()) {
      return refusal_of(http::error::body_limit);
    }
    return std::nullopt;
  }

  /// Before the body: the parser adds trailers to the headers, where they could pass for a second Host or a key.
  void keep_headers() {
    headers_ = {};
    headers_.reserve(kUsualHeaders);
    for (const auto& field : parser_->get()) {
      headers_.add(std::string(std::string_view(field.name_string())),
                   std::string(std::string_view(field.value())));
    }
  }

  Awaitable<std::optional<Refusal>> read_body(const HttpLimits& limits, BodyShare& share) {
    parser_->eager(true);
    if (const Failure error = parse(); error && error != http::error::need_more) {
      co_return refusal_of(error);
    }
    if (parser_->is_done()) co_return std::nullopt;
    if (same_header(std::string_view(parser_->get()[http::field::expect]), "100-continue")) {
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      set_timeout(limits.write_timeout);
      co_await stream_.write_all({asio::buffer(kContinue), asio::const_buffer()});
    }
    set_timeout(limits.body_timeout);
    if (parser_->content_length().has_value() && !stream_.is_secure()) {
      co_return co_await read_in_place(limits, share);
    }
    while (!parser_->is_done()) {
      // A full buffer here holds trailers or chunk extensions, which are limited like headers.
      if (buffer_.size() >= buffer_.max_size()) co_return refusal_of(http::error::header_limit);
      bool late = false;
      if (!co_await read_more(kReadAtOnce, late))
        co_return late ? std::optional(too_slow()) : std::nullopt;
      const Failure error = parse();
      if (error && error != http::error::need_more) co_return refusal_of(error);
      if (!share.grow_to(parser_->get().body().size(), limits.bodies.value())) {
        co_return overloaded();
      }
    }
    co_return std::nullopt;
  }

  /// A body of known length is read to where it stays.
  Awaitable<std::optional<Refusal>> read_in_place(const HttpLimits& limits, BodyShare& share) {
    std::string& body = parser_->get().body();
    const auto length = static_cast<std::size_t>(*parser_->content_length());
    body.reserve(length);
    while (body.size() < length) {
      Failure error;
      const std::size_t before = body.size();
      const std::size_t room = std::min(kBodyAtOnce, length - before);
      body.resize_and_overwrite(before + room, [&](char* all, std::size_t /*size*/) {
        return before + stream_.read_now(asio::buffer(all + before, room), error);
      });
      if (body.size() == before && !error) error = co_await stream_.wait_readable();
      if (too_late_) co_return too_slow();
      gone_ = gone_ || error.failed();
      if (gone_) co_return std::nullopt;
      if (!share.grow_to(body.size(), limits.bodies.value())) co_return overloaded();
    }
    co_return std::nullopt;
  }

  Refusal overloaded() {
    ++server_->overloaded;
    return {.status = 503, .why = "too many large requests at once; try again soon"};
  }

  Refusal too_slow() {
    ++server_->slow;
    return {.status = 408, .why = "the request was not received in time"};
  }

  Refusal refusal_of(Failure error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      ++server_->large_headers;
      return {.status = 431, .why = "the request's headers are larger than this server allows"};
    }
    if (error == http::error::body_limit) {
      ++server_->large_bodies;
      return {.status = 413, .why = "the request's body is larger than this server allows"};
    }
    ++server_->malformed;
    return {.status = 400, .why = "this is not a valid HTTP request"};
  }

  Awaitable<void> refuse(Refusal refusal, const HttpLimits& limits) {
    const HttpReply reply = server_->options.explain(refusal.status, refusal.why);
    co_await write(reply, {.keep = false, .head = false, .chunk = false}, limits);
    Failure error;
    // Under TLS, what the client still sends is discarded below it: nobody asks what it says.
    if (stream_.is_secure()) co_await say_goodbye();
    stream_.socket().shutdown(net::Tcp::socket::shutdown_send, error);
    set_timeout(std::chrono::seconds(2));
    buffer_.clear();
    for (std::size_t taken = 0; taken < kLinger;) {
      const auto [ended, size] =
          co_await stream_.socket().async_read_some(buffer_.prepare(kReadAtOnce), kQuiet);
      if (ended) break;
      taken += size;
    }
  }

  void hand_over() {
    auto& message = parser_->get();
    HttpRequest request{.method = std::string(std::string_view(message.method_string())),
                        .target = std::string(std::string_view(message.target())),
                        .headers = std::exchange(headers_, {}),
                        .body = std::make_shared<const std::string>(std::move(message.body())),
                        .peer = peer_};
    exchange_ = std::make_shared<Exchange>(weak_from_this(), stream_.socket().get_executor());
    try {
      server_->handler(std::move(request),
                       Responder(std::make_shared<Responder::Pending>(exchange_)));
    } catch (const std::exception&) {  // the Responder was destroyed and answers 500
    }
  }

  struct Manner {
    bool keep = true;
    bool head = false;  // the request was HEAD
    bool chunk = true;  // HTTP/1.1
  };

  Awaitable<bool> write(const HttpReply& reply, Manner manner, const HttpLimits& limits) {
    std::string head;
    head.reserve(kUsualHead);
    fmt::format_to(std::back_inserter(head), "HTTP/1.1 {} {}\r\n", reply.status,
                   reason_of(reply.status));
    for (const auto& [name, value] : reply.headers) {
      head.append(name).append(": ").append(value).append("\r\n");
    }
    holding_ = {};
    bool written = false;
    if (const auto* source = std::get_if<std::shared_ptr<BodySource>>(&reply.body)) {
      if ((*source)->size().has_value()) {
        fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n", *(*source)->size());
        manner.chunk = false;
      } else {
        manner.keep = manner.keep && manner.chunk;
      }
      written = co_await write_source(**source, std::move(head), manner, limits) && manner.keep;
      if (too_late_ || is_cut_) (*source)->too_slow();
      (*source)->left();
    } else {
      written = co_await write_text(reply, std::move(head), manner, limits);
    }
    unread_.reset();
    co_return written;
  }

  Awaitable<bool> write_text(const HttpReply& reply, std::string head, Manner manner,
                             const HttpLimits& limits) {
    std::string_view body;
    if (const auto* own = std::get_if<std::string>(&reply.body)) {
      body = *own;
      holding_.own = body.size();
    } else {
      const auto& shared = std::get<std::shared_ptr<const std::string>>(reply.body);
      body = *shared;
      holding_.shared = {.what = shared.get(), .bytes = body.size()};
    }
    if (!has_no_body(reply.status)) {
      fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n", body.size());
    }
    head += manner.keep ? "\r\n" : "Connection: close\r\n\r\n";
    co_return co_await send(head, manner.head || has_no_body(reply.status) ? "" : body, limits);
  }

  Awaitable<bool> send(std::string_view head, std::string_view body, const HttpLimits& limits) {
    while (!head.empty() || !body.empty()) {
      const std::string_view now = body.substr(0, kWriteAtOnce);
      body.remove_prefix(now.size());
      ServerStream::Buffers both{asio::buffer(head), asio::buffer(now)};
      head = {};
      Failure error;
      std::size_t taken = stream_.write_now(both, error);
      if (!error && taken < asio::buffer_size(both)) {
        for (asio::const_buffer& part : both) {
          const std::size_t sent = std::min(taken, part.size());
          part += sent;
          taken -= sent;
        }
        wait_for_client(limits);
        if (!is_cut_) error = co_await stream_.write_all(both);
        if (is_cut_) error = asio::error::operation_aborted;
        if (error && too_late_ && !is_cut_) ++server_->slow;
        if (unread_.has_value()) unread_->goes_on();
      }
      if (error) co_return false;
    }
    co_return true;
  }

  /// The client has not read what it was sent: the rest waits in memory.
  void wait_for_client(const HttpLimits& limits) {
    set_timeout(limits.write_timeout);
    if (!unread_.has_value()) {
      unread_.emplace(server_->unread,
                      [self = weak_from_this(), executor = stream_.socket().get_executor()] {
                        asio::post(executor, [self] {
                          if (const auto there = self.lock()) there->end_unread();
                        });
                      });
    }
    unread_->waits(holding_.own, holding_.shared, limits.unread);
  }

  /// Writes a BodySource as it is if its length is known, as chunks, or, for clients without chunked
  /// encoding, until the connection is closed.
  Awaitable<bool> write_source(BodySource& source, std::string head, Manner manner,
                               const HttpLimits& limits) {
    if (manner.chunk) head += "Transfer-Encoding: chunked\r\n";
    head += manner.keep ? "\r\n" : "Connection: close\r\n\r\n";
    const std::weak_ptr<Connection> self = weak_from_this();
    const auto wake = [self, executor = stream_.socket().get_executor()] {
      asio::post(executor, [self] {
        if (const auto there = self.lock()) there->wake();
      });
    };
    bool first = true;
    for (std::size_t sent = 0;;) {
      BodySource::Piece piece =
          manner.head ? BodySource::Piece{.bytes = {}, .state = BodySource::State::kEnd}
                      : source.read(sent, wake);
      if (piece.bytes.empty() && piece.state == BodySource::State::kMore) {
        // Sends the head without waiting for the body, so that the client sees a response has
        // begun.
        if (first && !co_await send(head, "", limits)) co_return false;
        head.clear();
        first = false;
        if (!gone_) co_await wait_for_event();
        if (gone_ || is_cut_) co_return false;
        continue;
      }
      if (piece.state == BodySource::State::kBroken) co_return false;
      sent += piece.bytes.size();
      if (manner.chunk && !manner.head) frame(piece);
      holding_ = {.own = piece.bytes.size(), .shared = source.held()};
      if (!co_await send(head, piece.bytes, limits)) co_return false;
      head.clear();
      first = false;
      if (piece.state == BodySource::State::kEnd) co_return true;
    }
  }

  static void frame(BodySource::Piece& piece) {
    if (!piece.bytes.empty()) {
      piece.bytes = fmt::format("{:x}\r\n{}\r\n", piece.bytes.size(), piece.bytes);
    }
    if (piece.state == BodySource::State::kEnd) piece.bytes += "0\r\n\r\n";
  }

  /// Waits for wake(), and watches for the client to disconnect.
  Awaitable<void> wait_for_event() {
    // The time limits of reading and writing do not hold for making the response; an alarm now
    // would end the watch.
    until_ = net::Timer::time_point::max();
    watch();
    if (!woken_) {
      event_.expires_at(net::Timer::time_point::max());
      co_await event_.async_wait(kQuiet);
    }
    woken_ = false;
  }

  /// Watches for a disconnect while a response is made. A client that closes its side has left. One
  /// that sends more bytes has pipelined a request, and a disconnect is visible only after it.
  void watch() {
    if (watching_ || buffer_.size() > 0 || gone_) return;
    watching_ = true;
    if (stream_.is_secure()) return read_ahead();
    stream_.socket().async_wait(net::Tcp::socket::wait_read,
                                [self = weak_from_this(), watch = watch_](Failure error) {
                                  const auto there = self.lock();
                                  if (there == nullptr || there->watch_ != watch || error) return;
                                  there->check_for_disconnect();
                                });
  }
  /// Under TLS only reading tells a request that was pipelined from the client's goodbye.
  void read_ahead() {
    reading_ahead_ = true;
    stream_.secure().async_read_some(
        buffer_.prepare(kAhead),
        [self = shared_from_this(), watch = watch_](Failure error, std::size_t size) {
          self->reading_ahead_ = false;
          self->buffer_.commit(size);
          if (self->watch_ == watch && error) self->gone_ = true;
          self->wake();
        });
  }
  /// The read that was cancelled is over before the next begins.
  Awaitable<void> finish_reading_ahead() {
    Failure ignored;
    stream_.socket().cancel(ignored);
    if (!woken_) {
      event_.expires_at(net::Timer::time_point::max());
      co_await event_.async_wait(kQuiet);
    }
    woken_ = false;
  }
  void stop_watching() {
    if (!watching_) return;
    ++watch_;
    watching_ = false;
    Failure error;
    stream_.socket().cancel(error);
  }
  void check_for_disconnect() {
    char byte = 0;
    const auto got = ::recv(stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got > 0) return;
    watching_ = false;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return watch();
    gone_ = true;
    wake();
  }

  /// Sets the timeout of the following operations, which are cancelled when it passes. The timer is
  /// reset only if it would fire too late, so this is free in the common case.
  void set_timeout(Duration timeout) {
    too_late_ = false;
    until_ = std::chrono::steady_clock::now() + timeout;
    if (until_ < alarm_.expiry()) set_alarm();
  }
  void set_alarm() {
    alarm_.expires_at(until_);
    alarm_.async_wait([self = weak_from_this()](Failure error) {
      const auto there = self.lock();
      if (there == nullptr || error) return;
      if (std::chrono::steady_clock::now() < there->until_) return there->set_alarm();
      there->too_late_ = true;
      there->alarm_.expires_at(net::Timer::time_point::max());
      Failure ignored;
      there->stream_.socket().cancel(ignored);
    });
  }

  std::shared_ptr<HttpServer::State> server_;
  unsigned thread_;
  ServerStream stream_;
  std::shared_ptr<const TlsIdentity> identity_;  // nullptr: plain HTTP
  net::Timer event_;
  net::Timer alarm_;
  net::Timer::time_point until_;
  bool too_late_ = false;
  net::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  HttpHeaders headers_;  // of the current request
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
  bool watching_ = false;
  bool reading_ahead_ = false;  // into buffer_, while a response is made
  std::uint64_t watch_ = 0;     // number of the current watch
};

void Exchange::send_reply(HttpReply made, bool lost) {
  {
    const MutexLock lock(mutex);
    if (replied) return;
    replied = true;
    if (gone) return;
  }
  // On the connection's own thread, inside the handler, this is a plain call.
  asio::dispatch(executor, [to = connection, reply = std::move(made), lost]() mutable {
    if (const auto there = to.lock()) there->take(std::move(reply), lost);
  });
}

void Exchange::client_left() {
  std::vector<std::function<void()>> calls;
  {
    const MutexLock lock(mutex);
    gone = true;
    calls.swap(on_disconnect);
  }
  for (const auto& call : calls) call();
}

void start_connection(const std::shared_ptr<HttpServer::State>& server, net::Socket socket,
                      unsigned thread) {
  const auto executor = socket.get_executor();
  auto connection = std::make_shared<Connection>(server, std::move(socket), thread);
  asio::co_spawn(executor, connection->run(), asio::detached);
}

void shut_connections(const HttpServer::State& server, unsigned thread) {
  const auto all = server.connections[thread];
  for (Connection* connection : all) connection->shut();
}

void end_idle_connections(const HttpServer::State& server, unsigned thread) {
  for (Connection* connection : server.connections[thread]) {
    if (connection->idle()) connection->end_soon();
  }
}

}  // namespace afterimage
