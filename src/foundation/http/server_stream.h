// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <optional>
#include <tuple>

#include "foundation/http/io_threads_impl.h"

namespace afterimage {

/// The stream of one client's connection: a socket, under TLS after shake_hands().
///
/// What a plain socket has is read, and what it takes is written, by a plain system call: a turn of
/// the event loop costs more than the call. After kCallsInARow of them the connection waits for its
/// turn, so that one client holds up no other.
///
/// Threads  That of its executor.
class ServerStream {
 public:
  using Secure = net::asio::ssl::stream<net::Socket&>;
  using Buffers = std::array<net::asio::const_buffer, 2>;
  using Transfer = net::Awaitable<std::tuple<net::Failure, std::size_t>>;
  static constexpr unsigned kCallsInARow = 16;

  explicit ServerStream(net::Socket socket);

  [[nodiscard]] net::Socket& socket() { return socket_; }
  [[nodiscard]] bool is_secure() const { return secure_.has_value(); }
  /// Only if is_secure().
  [[nodiscard]] Secure& secure() { return *secure_; }

  net::Awaitable<net::Failure> shake_hands(net::asio::ssl::context& context);
  /// Tells the client that nothing is missing, and does not wait for its answer. Only if is_secure().
  net::Awaitable<void> say_goodbye();

  /// Waits until a plain socket has bytes, or its end.
  net::Awaitable<net::Failure> wait_readable();
  /// Bytes of a plain socket, without waiting. 0 without an error: wait first.
  std::size_t read_now(net::asio::mutable_buffer into, net::Failure& error);
  /// At least one byte, or an error.
  Transfer read_some(net::asio::mutable_buffer into);
  /// The same of a client that most likely has sent nothing yet.
  Transfer wait_for_some(net::asio::mutable_buffer into);

  /// What the system takes without waiting, of a plain socket; 0 without an error: write_all().
  std::size_t write_now(const Buffers& bytes, net::Failure& error);
  net::Awaitable<net::Failure> write_all(const Buffers& bytes);

 private:
  [[nodiscard]] bool may_call();

  net::Socket socket_;
  std::optional<Secure> secure_;  // over socket_
  unsigned calls_ = 0;            // since the connection last waited
};

}  // namespace afterimage
