// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "foundation/http/io_threads_impl.h"
#include "foundation/http/server.h"
#include "foundation/http/unread.h"
#include "foundation/platform/atomic_snapshot.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"

namespace afterimage {

class Connection;

/// Shared by a connection and its request's Responder, which may reply from any thread.
struct Exchange {
  Exchange(std::weak_ptr<Connection> of, net::Executor where)
      : connection(std::move(of)), executor(std::move(where)) {}
  void send_reply(HttpReply made, bool lost);
  void client_left();
  /// The response is complete: disconnect callbacks are no longer called.
  void complete() {
    const MutexLock lock(mutex);
    on_disconnect.clear();
  }

  std::weak_ptr<Connection> connection;
  net::Executor executor;
  Mutex mutex;
  bool replied AFI_GUARDED_BY(mutex) = false;
  bool gone AFI_GUARDED_BY(mutex) = false;
  std::vector<std::function<void()>> on_disconnect AFI_GUARDED_BY(mutex);
};

struct Responder::Pending {
  explicit Pending(std::shared_ptr<Exchange> of) : exchange(std::move(of)) {}
  ~Pending() { exchange->send_reply({}, true); }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  std::shared_ptr<Exchange> exchange;
};

/// What the connections of one server share.
struct HttpServer::State : std::enable_shared_from_this<HttpServer::State> {
  State(Options chosen, HttpHandler handle, IoThreads& on)
      : options(std::move(chosen)),
        handler(std::move(handle)),
        threads(on),
        limits(std::make_shared<const HttpLimits>(options.limits)),
        tls(options.tls),
        connections(on.count()),
        unwatched(on.count()) {}
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] std::shared_ptr<const HttpLimits> current_limits() const { return limits.load(); }
  net::Awaitable<void> accept();
  net::Awaitable<void> accept_all();
  /// For the next of them.
  void start(net::Socket socket, unsigned thread);
  /// Takes clients that cannot be served off the queue of the port, and tells them.
  void refuse_without_descriptors();
  /// Those that connected before the port was closed.
  void take_waiting();
  void closed();

  Options options;
  HttpHandler handler;
  IoThreads& threads;
  AtomicSnapshot<HttpLimits> limits;
  AtomicSnapshot<TlsIdentity> tls;
  std::optional<net::asio::basic_socket_acceptor<net::Tcp, net::Executor>> acceptor;
  std::uint16_t port = 0;
  /// One set per thread, used on that thread only.
  std::vector<std::unordered_set<Connection*>> connections;
  /// Connections that wait for a response and are soon watched for a disconnect, with the numbers of their
  /// watches. One list per thread, used on that thread only.
  std::vector<std::vector<std::pair<std::weak_ptr<Connection>, std::uint64_t>>> unwatched;
  std::atomic<bool> draining = false;

  std::atomic<std::uint64_t> accepted = 0, requests = 0, refused = 0, malformed = 0;
  std::atomic<std::uint64_t> large_headers = 0, large_bodies = 0, overloaded = 0, slow = 0;
  std::atomic<std::uint64_t> failed_handshakes = 0, no_descriptors = 0;
  std::atomic<std::uint64_t> bodies = 0;
  std::atomic<std::uint64_t> open = 0;
  UnreadResponses unread;
  /// Given up for a moment when there is no other, so that a client can be told. Of the accepting
  /// coroutine, as is the time.
  int spare_descriptor = -1;
  std::optional<std::chrono::steady_clock::time_point> told_no_descriptors = std::nullopt;
  Mutex mutex;
  TimedCondition all_closed;
  bool accepting AFI_GUARDED_BY(mutex) = true;
};

/// Call on the thread with index `thread`: reads and answers requests until either side closes.
void start_connection(const std::shared_ptr<HttpServer::State>& server, net::Socket socket,
                      unsigned thread);
/// Call on that thread: closes its connections.
void shut_connections(const HttpServer::State& server, unsigned thread);
/// Call on that thread: the idle ones close if no request comes within kLastRequest.
void end_idle_connections(const HttpServer::State& server, unsigned thread);

}  // namespace afterimage
