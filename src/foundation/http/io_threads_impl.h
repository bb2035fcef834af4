// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "foundation/http/io_threads.h"

namespace afterimage {

/// Types bound to one concrete executor instead of a type-erased one, because every step of every
/// connection goes through it.
namespace net {

namespace asio = boost::asio;
namespace beast = boost::beast;

using Executor = asio::io_context::executor_type;
using Tcp = asio::ip::tcp;
using Socket = asio::basic_stream_socket<Tcp, Executor>;
using Stream = beast::basic_stream<Tcp, Executor>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, Executor>;
using Failure = boost::system::error_code;
template <typename T>
using Awaitable = asio::awaitable<T, Executor>;

/// co_await x(kQuiet): the error is returned as a value instead of thrown.
inline constexpr asio::as_tuple_t<asio::use_awaitable_t<Executor>> kQuiet{};

}  // namespace net

/// `shutdown` destroys what waits in the loop; the loop itself remains.
struct IoLoop : net::asio::io_context {
  using net::asio::io_context::io_context;
  using net::asio::io_context::shutdown;
};

struct IoThreads::Impl {
  std::vector<std::unique_ptr<IoLoop>> loops;
  std::vector<std::thread> threads;
  std::atomic<unsigned> next = 0;
};

}  // namespace afterimage
