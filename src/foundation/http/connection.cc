// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/connection.h"

#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <cerrno>
#include <functional>
#include <new>
#include <utility>
#include <vector>

namespace afterimage {
namespace {

namespace asio = net::asio;
using net::Awaitable;
using net::Failure;
using net::kQuiet;

constexpr std::size_t kAhead = 4096;
constexpr auto kUnwatched = std::chrono::milliseconds(10);

}  // namespace

Awaitable<void> Connection::run() {
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

void Connection::end_unread() {
  is_cut_ = true;
  Failure ignored;
  stream_.socket().cancel(ignored);
  wake();
}

void Connection::shut() {
  Failure ignored;
  stream_.socket().close(ignored);
  gone_ = true;
  wake();
}

void Connection::take(HttpReply reply, bool lost) {
  if (lost) reply = server_->options.error_reply(500, "the request was dropped");
  reply_ = std::move(reply);
  wake();
}

Awaitable<void> Connection::say_goodbye() {
  while (reading_ahead_) co_await finish_reading_ahead();
  set_timeout(std::chrono::seconds(1));
  co_await stream_.say_goodbye();
}

Awaitable<void> Connection::wait_for_event() {
  // The time limits of reading and writing do not hold for making the response; an alarm now
  // would end the watch.
  until_ = net::Timer::time_point::max();
  watch_soon();
  if (!woken_) {
    event_.expires_at(net::Timer::time_point::max());
    co_await event_.async_wait(kQuiet);
  }
  woken_ = false;
}

void Connection::watch_soon() {
  if (watching_ != Watch::kNone || buffer_.size() > 0 || gone_) return;
  if (server_->unwatched[thread_].empty()) watch_all_soon();
  server_->unwatched[thread_].emplace_back(weak_from_this(), watch_);
  watching_ = Watch::kSoon;
}

/// One timer for all connections of this thread that come to wait until then.
void Connection::watch_all_soon() {
  const auto timer = std::make_shared<net::Timer>(stream_.socket().get_executor(), kUnwatched);
  timer->async_wait([timer, server = server_->weak_from_this(), thread = thread_](Failure error) {
    const auto there = server.lock();
    if (there == nullptr || error) return;
    for (const auto& [connection, watch] : std::exchange(there->unwatched[thread], {})) {
      if (const auto waits = connection.lock()) waits->begin_watch(watch);
    }
  });
}

void Connection::begin_watch(std::uint64_t watch) {
  if (watching_ == Watch::kSoon && watch_ == watch) this->watch();
}

void Connection::watch() {
  if (gone_) return;
  watching_ = Watch::kBegun;
  if (stream_.is_secure()) return read_ahead();
  stream_.socket().async_wait(net::Tcp::socket::wait_read,
                              [self = weak_from_this(), watch = watch_](Failure error) {
                                const auto there = self.lock();
                                if (there == nullptr || there->watch_ != watch || error) return;
                                there->check_for_disconnect();
                              });
}

void Connection::read_ahead() {
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

Awaitable<void> Connection::finish_reading_ahead() {
  Failure ignored;
  stream_.socket().cancel(ignored);
  if (!woken_) {
    event_.expires_at(net::Timer::time_point::max());
    co_await event_.async_wait(kQuiet);
  }
  woken_ = false;
}

void Connection::stop_watching() {
  ++watch_;
  if (std::exchange(watching_, Watch::kNone) != Watch::kBegun) return;
  Failure error;
  stream_.socket().cancel(error);
}

void Connection::check_for_disconnect() {
  char byte = 0;
  const auto got = ::recv(stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0) return;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return watch();
  gone_ = true;
  wake();
}

void Connection::set_timeout(Duration timeout) {
  too_late_ = false;
  until_ = std::chrono::steady_clock::now() + timeout;
  if (until_ < alarm_.expiry()) set_alarm();
}

void Connection::set_alarm() {
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
