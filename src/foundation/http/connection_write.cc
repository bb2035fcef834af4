// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <iterator>
#include <string_view>

#include "foundation/http/connection.h"

namespace afterimage {
namespace {

namespace asio = net::asio;
namespace http = net::beast::http;
using net::Awaitable;
using net::Failure;

/// Bytes per write to a socket: a client that reads this much within the write timeout is fast
/// enough.
constexpr std::size_t kWriteAtOnce = 256 * 1024;
constexpr std::size_t kUsualHead = 512;  // bytes of a response

std::string_view reason_of(unsigned status) {
  return std::string_view(http::obsolete_reason(static_cast<http::status>(status)));
}

void add_length(std::string& head, std::uint64_t length) {
  head.append("Content-Length: ").append(std::to_string(length)).append("\r\n");
}

bool has_no_body(unsigned status) { return status == 204 || status == 304 || status < 200; }

}  // namespace

Awaitable<bool> Connection::write(const HttpReply& reply, Manner manner, const HttpLimits& limits) {
  std::string head;
  head.reserve(kUsualHead);
  head.append("HTTP/1.1 ").append(std::to_string(reply.status)).append(" ");
  head.append(reason_of(reply.status)).append("\r\n");
  for (const HttpHeaders* headers : {&reply.headers, &std::as_const(added_headers_)}) {
    for (const auto& [name, value] : *headers) {
      head.append(name).append(": ").append(value).append("\r\n");
    }
  }
  holding_ = {};
  bool written = false;
  if (const auto* source = std::get_if<std::shared_ptr<BodySource>>(&reply.body)) {
    if ((*source)->size().has_value()) {
      add_length(head, *(*source)->size());
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

Awaitable<bool> Connection::write_text(const HttpReply& reply, std::string head, Manner manner,
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
    add_length(head, body.size());
  }
  head += manner.keep ? "\r\n" : "Connection: close\r\n\r\n";
  co_return co_await send(head, manner.head || has_no_body(reply.status) ? "" : body, limits);
}

Awaitable<bool> Connection::send(std::string_view head, std::string_view body,
                                 const HttpLimits& limits) {
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

void Connection::wait_for_client(const HttpLimits& limits) {
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

Awaitable<bool> Connection::write_source(BodySource& source, std::string head, Manner manner,
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
    BodySource::Piece piece = manner.head
                                  ? BodySource::Piece{.bytes = {}, .state = BodySource::State::kEnd}
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

void Connection::frame(BodySource::Piece& piece) {
  if (!piece.bytes.empty()) {
    piece.bytes = fmt::format("{:x}\r\n{}\r\n", piece.bytes.size(), piece.bytes);
  }
  if (piece.state == BodySource::State::kEnd) piece.bytes += "0\r\n\r\n";
}

}  // namespace afterimage
