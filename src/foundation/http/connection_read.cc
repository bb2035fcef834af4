// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <exception>
#include <string_view>

#include "foundation/http/connection.h"

namespace afterimage {
namespace {

namespace asio = net::asio;
namespace http = net::beast::http;
using net::Awaitable;
using net::Failure;
using net::kQuiet;

constexpr std::size_t kReadAtOnce = 64 * 1024;
constexpr std::size_t kHeadAtOnce = 4096;
constexpr std::size_t kIdleBuffer = 1024;
constexpr std::size_t kBodyAtOnce = 1024 * 1024;
/// Bytes read and discarded from a refused client before the connection is closed: closing at once
/// would reset it, and the client might never see the refusal.
constexpr std::size_t kLinger = 4 * 1024 * 1024;
constexpr std::size_t kUsualHeaders = 8;  // of a request

/// Whether a header line is folded, which other parsers may read as two lines (RFC 9112 5.2).
bool has_folded_line(std::string_view head) {
  return head.contains("\n ") || head.contains("\n\t");
}

/// Whether the target is in origin form and visible ASCII, which all parsers read alike.
bool is_target(std::string_view target) {
  return target.starts_with('/') &&
         std::ranges::all_of(target, [](char c) { return c > ' ' && c < 0x7F; });
}

}  // namespace

Awaitable<bool> Connection::shake_hands() {
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

Awaitable<bool> Connection::serve_one() {
  const auto limits = server_->current_limits();
  buffer_.max_size(limits->headers.value() + kReadAtOnce);
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits->headers.value()));
  parser_->body_limit(limits->body.value());
  BodyShare share(server_->bodies);
  added_headers_ = {};
  std::optional<HttpRefusal> wrong = co_await read_head(*limits);
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

Awaitable<bool> Connection::first_byte() {
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

void Connection::take_last_request() {
  Failure ignored;
  buffer_.commit(stream_.read_now(buffer_.prepare(kIdleBuffer), ignored));
}

Awaitable<bool> Connection::read_more(std::size_t at_most, bool& late) {
  const std::size_t room = std::min(at_most, buffer_.max_size() - buffer_.size());
  const auto [error, size] = co_await stream_.read_some(buffer_.prepare(room));
  late = too_late_;
  if (error && !late) gone_ = true;
  if (error || late) co_return false;
  buffer_.commit(size);
  co_return true;
}

Failure Connection::parse() {
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

Awaitable<std::optional<HttpRefusal>> Connection::read_head(const HttpLimits& limits) {
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

std::optional<HttpRefusal> Connection::check_head() {
  const auto& head = parser_->get();
  std::size_t hosts = 0;
  std::size_t lengths = 0;
  std::size_t codings = 0;
  std::string_view coding;
  for (const auto& field : head) {
    hosts += field.name() == http::field::host ? 1 : 0;
    lengths += field.name() == http::field::content_length ? 1 : 0;
    if (field.name() != http::field::transfer_encoding) continue;
    ++codings;
    coding = std::string_view(field.value());
  }
  if (hosts > 1 || (hosts == 0 && head.version() >= 11)) {
    ++server_->malformed;
    return HttpRefusal{.status = 400, .why = "exactly one Host header is needed"};
  }
  // RFC 9112 6.3 lets a server take equal ones for one; others on the way may not.
  if (lengths > 1) {
    ++server_->malformed;
    return HttpRefusal{.status = 400, .why = "at most one Content-Length header is allowed"};
  }
  if (!is_target(std::string_view(head.target()))) {
    ++server_->malformed;
    return HttpRefusal{.status = 400, .why = "the request target must be a path in visible ASCII"};
  }
  if (codings > 1 || (codings == 1 && !same_header(coding, "chunked"))) {
    ++server_->malformed;
    return HttpRefusal{.status = 501, .why = "the only supported Transfer-Encoding is chunked"};
  }
  const auto length = parser_->content_length();
  if (length.has_value() && *length > server_->current_limits()->body.value()) {
    return refusal_of(http::error::body_limit);
  }
  return std::nullopt;
}

void Connection::keep_headers() {
  headers_ = {};
  headers_.reserve(kUsualHeaders);
  for (const auto& field : parser_->get()) {
    headers_.add(std::string(std::string_view(field.name_string())),
                 std::string(std::string_view(field.value())));
  }
  if (server_->options.added_headers) added_headers_ = server_->options.added_headers(headers_);
}

Awaitable<std::optional<HttpRefusal>> Connection::read_body(const HttpLimits& limits,
                                                            BodyShare& share) {
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

Awaitable<std::optional<HttpRefusal>> Connection::read_in_place(const HttpLimits& limits,
                                                                BodyShare& share) {
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

HttpRefusal Connection::overloaded() {
  ++server_->overloaded;
  return {.status = 503, .why = "too many large requests at once; try again soon"};
}

HttpRefusal Connection::too_slow() {
  ++server_->slow;
  return {.status = 408, .why = "the request was not received in time"};
}

HttpRefusal Connection::refusal_of(Failure error) {
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

Awaitable<void> Connection::refuse(HttpRefusal refusal, const HttpLimits& limits) {
  const HttpReply reply = server_->options.error_reply(refusal.status, refusal.why);
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

void Connection::hand_over() {
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

}  // namespace afterimage
