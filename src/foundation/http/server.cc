// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/server.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <utility>

#include "foundation/http/server_impl.h"

namespace afterimage {
namespace {

namespace asio = net::asio;
using net::Awaitable;
using net::Failure;
using net::kQuiet;

constexpr std::string_view kFull =
    "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"
    "Content-Length: 0\r\n\r\n";

}  // namespace

void Responder::reply(HttpReply reply) const {
  pending_->exchange->send_reply(std::move(reply), false);
}

void Responder::on_disconnect(std::function<void()> gone) const {
  Exchange& exchange = *pending_->exchange;
  {
    const MutexLock lock(exchange.mutex);
    if (!exchange.gone) {
      exchange.on_disconnect.push_back(std::move(gone));
      return;
    }
  }
  gone();
}

Awaitable<void> HttpServer::State::accept() {
  const auto self = shared_from_this();
  co_await accept_all();
  acceptor.reset();
  const MutexLock lock(mutex);
  accepting = false;
  all_closed.notify_all();
}

HttpServer::State::~State() {
  if (spare_descriptor >= 0) ::close(spare_descriptor);
}

Awaitable<void> HttpServer::State::accept_all() {
  const auto self = shared_from_this();
  auto& loops = threads.impl().loops;
  spare_descriptor = ::eventfd(0, EFD_CLOEXEC);
  while (!draining) {
    const unsigned thread = threads.impl().next++ % threads.count();
    net::Socket socket(*loops[thread]);
    const auto [error] = co_await acceptor->async_accept(socket, kQuiet);
    if (draining || error == asio::error::operation_aborted) {
      if (!error) start(std::move(socket), thread);
      co_return;
    }
    if (error) {
      const bool is_full = error == asio::error::no_descriptors || error.value() == ENFILE;
      if (is_full) refuse_without_descriptors();
      net::Timer pause(*loops[0], std::chrono::milliseconds(50));
      co_await pause.async_wait(kQuiet);
      continue;
    }
    start(std::move(socket), thread);
  }
}

void HttpServer::State::start(net::Socket socket, unsigned thread) {
  ++accepted;
  if (open >= current_limits()->connections) {  // only the accepting thread adds to it
    ++refused;
    Failure ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(kFull), ignored);
    socket.close(ignored);
    return;
  }
  ++open;
  asio::post(*threads.impl().loops[thread],
             [self = shared_from_this(), thread,
              taken = std::make_shared<net::Socket>(std::move(socket))] {
               start_connection(self, std::move(*taken), thread);
             });
}

void HttpServer::State::refuse_without_descriptors() {
  constexpr int kAtOnce = 64;
  constexpr auto kQuietFor = std::chrono::seconds(10);
  const auto now = std::chrono::steady_clock::now();
  if (options.on_no_descriptors &&
      (!told_no_descriptors.has_value() || now - *told_no_descriptors >= kQuietFor)) {
    told_no_descriptors = now;
    options.on_no_descriptors();
  }
  for (int i = 0; i < kAtOnce && spare_descriptor >= 0; ++i) {
    ::close(std::exchange(spare_descriptor, -1));
    const int client =
        ::accept4(acceptor->native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client >= 0) {
      ++no_descriptors;
      ::send(client, kFull.data(), kFull.size(), MSG_NOSIGNAL);
      // What it has sent is read: closing would else reset it before it sees the answer.
      std::array<char, 4096> unused{};
      while (::recv(client, unused.data(), unused.size(), MSG_DONTWAIT) > 0) continue;
      ::close(client);
    }
    spare_descriptor = ::eventfd(0, EFD_CLOEXEC);
    if (client < 0) return;
  }
  if (spare_descriptor < 0) spare_descriptor = ::eventfd(0, EFD_CLOEXEC);
}

void HttpServer::State::take_waiting() {
  Failure error;
  acceptor->non_blocking(true, error);
  while (!error) {
    const unsigned thread = threads.impl().next++ % threads.count();
    net::Socket socket(*threads.impl().loops[thread]);
    acceptor->accept(socket, error);
    if (!error) start(std::move(socket), thread);
  }
}

void HttpServer::State::closed() {
  const MutexLock lock(mutex);
  if (--open == 0) all_closed.notify_all();
}

HttpServer::HttpServer(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(Options options, HttpHandler handler,
                                                       IoThreads& threads) {
  Failure error;
  const auto address = asio::ip::make_address(options.address, error);
  if (error) {
    return fail(ErrorCode::kInvalidArgument,
                "'" + options.address + "' is not a numeric address to listen on; try 127.0.0.1");
  }
  const net::Tcp::endpoint where(address, options.port);
  auto state = std::make_shared<State>(std::move(options), std::move(handler), threads);
  auto& acceptor = state->acceptor.emplace(*threads.impl().loops[0]);
  acceptor.open(where.protocol(), error);
  if (!error) acceptor.set_option(net::Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(where, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("cannot listen on {}:{}: {}", state->options.address, where.port(),
                            error.message()));
  }
  state->port = acceptor.local_endpoint().port();
  asio::co_spawn(*threads.impl().loops[0], state->accept(), asio::detached);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::~HttpServer() {
  drain(Duration(0));
  for (unsigned thread = 0; thread < state_->threads.count(); ++thread) {
    asio::post(*state_->threads.impl().loops[thread],
               [state = state_, thread] { shut_connections(*state, thread); });
  }
  const MutexLock lock(state_->mutex);
  while (state_->open > 0 || state_->accepting) state_->all_closed.wait(state_->mutex);
}

std::uint16_t HttpServer::port() const { return state_->port; }

void HttpServer::set_limits(const HttpLimits& limits) {
  state_->limits.store(std::make_shared<const HttpLimits>(limits));
}

void HttpServer::set_tls(std::shared_ptr<const TlsIdentity> identity) {
  if (state_->options.tls != nullptr && identity != nullptr) state_->tls.store(std::move(identity));
}

bool HttpServer::drain(Duration timeout) {
  if (!state_->draining.exchange(true)) {
    asio::post(*state_->threads.impl().loops[0], [state = state_] {
      if (!state->acceptor.has_value()) return;
      Failure ignored;
      state->take_waiting();
      state->acceptor->close(ignored);
    });
    for (unsigned thread = 0; thread < state_->threads.count(); ++thread) {
      asio::post(*state_->threads.impl().loops[thread],
                 [state = state_, thread] { end_idle_connections(*state, thread); });
    }
  }
  const MutexLock lock(state_->mutex);
  return state_->all_closed.wait_for(state_->mutex, timeout, [this]() AFI_REQUIRES(state_->mutex) {
    return !state_->accepting && state_->open == 0;
  });
}

HttpServerStats HttpServer::stats() const {
  const State& s = *state_;
  return {.accepted = s.accepted,
          .requests = s.requests,
          .refused_connections = s.refused,
          .malformed = s.malformed,
          .large_headers = s.large_headers,
          .large_bodies = s.large_bodies,
          .overloaded = s.overloaded,
          .slow = s.slow,
          .unread_cut = s.unread.cut(),
          .no_descriptors = s.no_descriptors,
          .failed_handshakes = s.failed_handshakes,
          .open = s.open,
          .bodies = Bytes(s.bodies),
          .unread = s.unread.bytes()};
}

}  // namespace afterimage
