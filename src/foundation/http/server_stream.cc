// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/server_stream.h"

#include <boost/asio/write.hpp>
#include <utility>

namespace afterimage {

namespace {

namespace asio = net::asio;
using net::Awaitable;
using net::Failure;
using net::kQuiet;

/// There is nothing to read, or no room to write: neither is a failure.
std::size_t without_waiting(std::size_t size, Failure& error) {
  const bool waits = error == asio::error::would_block || error == asio::error::try_again ||
                     error == asio::error::interrupted;
  if (waits) error = {};
  return size;
}

}  // namespace

ServerStream::ServerStream(net::Socket socket) : socket_(std::move(socket)) {
  Failure ignored;  // of a socket that is gone, which the first read tells
  socket_.non_blocking(true, ignored);
}

bool ServerStream::may_call() {
  if (secure_.has_value() || calls_ >= kCallsInARow) return false;
  ++calls_;
  return true;
}

Awaitable<Failure> ServerStream::shake_hands(asio::ssl::context& context) {
  secure_.emplace(socket_, context);
  const auto [failed] = co_await secure_->async_handshake(Secure::server, kQuiet);
  co_return failed;
}

Awaitable<void> ServerStream::say_goodbye() {
  SSL_set_shutdown(secure_->native_handle(), SSL_RECEIVED_SHUTDOWN);  // do not wait for its own
  co_await secure_->async_shutdown(kQuiet);
}

Awaitable<Failure> ServerStream::wait_readable() {
  calls_ = 0;
  const auto [failed] = co_await socket_.async_wait(net::Tcp::socket::wait_read, kQuiet);
  co_return failed;
}

std::size_t ServerStream::read_now(asio::mutable_buffer into, Failure& error) {
  error = {};
  if (!may_call()) return 0;
  const std::size_t size = socket_.read_some(into, error);
  return without_waiting(size, error);
}

ServerStream::Transfer ServerStream::read_some(asio::mutable_buffer into) {
  Failure error;
  const std::size_t size = read_now(into, error);
  if (size > 0 || error) co_return std::tuple(error, size);
  co_return co_await wait_for_some(into);
}

ServerStream::Transfer ServerStream::wait_for_some(asio::mutable_buffer into) {
  calls_ = 0;
  if (secure_.has_value()) return secure_->async_read_some(into, kQuiet);
  return socket_.async_read_some(into, kQuiet);
}

std::size_t ServerStream::write_now(const Buffers& bytes, Failure& error) {
  error = {};
  if (!may_call()) return 0;
  const std::size_t size = socket_.write_some(bytes, error);
  return without_waiting(size, error);
}

Awaitable<Failure> ServerStream::write_all(const Buffers& bytes) {
  calls_ = 0;
  if (secure_.has_value()) {
    const auto [failed, size] = co_await asio::async_write(*secure_, bytes, kQuiet);
    co_return failed;
  }
  const auto [failed, size] = co_await asio::async_write(socket_, bytes, kQuiet);
  co_return failed;
}

}  // namespace afterimage
