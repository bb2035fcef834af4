// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "fire/proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <list>
#include <thread>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/result.h"

namespace afterimage::fire {
namespace {

constexpr std::size_t kPacket = 65'536;
constexpr std::size_t kMostHeld = std::size_t{8} << 20U;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

/// One direction of one connection.
struct Direction {
  int from = -1;
  int to = -1;
  bool to_client = false;
  std::deque<std::pair<Duration, std::vector<char>>> held;  // when each may be sent
  std::size_t bytes = 0;
  std::uint64_t passed = 0;
  bool ended = false;  // no more data arrives
  bool shut = false;   // and that was forwarded
};

struct Connection {
  std::array<Direction, 2> directions;
  bool over = false;
};

}  // namespace

struct TcpProxy::State {
  std::uint16_t server = 0;
  int listener = -1;
  std::uint16_t port = 0;
  std::atomic<Mood> mood{Mood::kHonest};
  std::atomic<std::uint64_t> amount{0};
  std::atomic<std::uint64_t> meddled{0};
  std::atomic<bool> stopping{false};
  std::uint64_t seen = 0;  // bytes, for flips
  SystemClock clock;
  std::list<Connection> connections;
  std::thread thread;

  void run();
  void accept_one();
  void take(Direction& direction);
  void give(Direction& direction, bool& over);
  void close_all(bool reset);
};

void TcpProxy::State::accept_one() {
  const int client = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (client < 0) return;
  const int upstream = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(server);
  if (::connect(upstream, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(client);
    ::close(upstream);
    return;
  }
  const int on = 1;
  for (const int fd : {client, upstream}) {
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  Connection connection;
  connection.directions[0] = {.from = client, .to = upstream};
  connection.directions[1] = {.from = upstream, .to = client, .to_client = true};
  connections.push_back(std::move(connection));
}

void TcpProxy::State::take(Direction& direction) {
  std::vector<char> bytes(kPacket);
  const ssize_t n = ::recv(direction.from, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (n <= 0) {
    direction.ended = n == 0 || (errno != EAGAIN && errno != EINTR);
    return;
  }
  bytes.resize(static_cast<std::size_t>(n));
  const Mood now = mood;
  Duration due = clock.now();
  if (now == Mood::kSwallows) {
    ++meddled;
    return;
  }
  if (now == Mood::kDelays) {
    ++meddled;
    due += std::chrono::milliseconds(amount.load());
  }
  if (now == Mood::kFlips) {
    for (char& byte : bytes) {
      if (++seen % std::max<std::uint64_t>(amount, 1) != 0) continue;
      byte = static_cast<char>(byte ^ (1 << (seen / 7 % 8)));
      ++meddled;
    }
  }
  direction.bytes += bytes.size();
  direction.held.emplace_back(due, std::move(bytes));
}

void TcpProxy::State::give(Direction& direction, bool& over) {
  const Mood now = mood;
  const Duration time = clock.now();
  while (!direction.held.empty() && direction.held.front().first <= time) {
    std::vector<char>& bytes = direction.held.front().second;
    std::size_t most = bytes.size();
    if (direction.to_client && now == Mood::kHalfCloses) {
      ++meddled;
      ::shutdown(direction.to, SHUT_WR);
      direction.shut = true;
      direction.held.clear();
      direction.bytes = 0;
      return;
    }
    if (direction.to_client && now == Mood::kThrottles) {
      ++meddled;
      most = std::clamp<std::size_t>(amount / 100, 1, most);  // a hundredth of a second's
    }
    if (direction.to_client && now == Mood::kTruncates) {
      ++meddled;
      most = std::min<std::size_t>(most, amount);
    }
    const ssize_t n = ::send(direction.to, bytes.data(), most, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) {
      over = errno != EAGAIN && errno != EINTR;
      return;
    }
    direction.passed += static_cast<std::uint64_t>(n);
    direction.bytes -= static_cast<std::size_t>(n);
    bytes.erase(bytes.begin(), bytes.begin() + n);
    if (direction.to_client && now == Mood::kTruncates) {
      over = true;
      return;
    }
    const bool slowly = direction.to_client && now == Mood::kThrottles;
    if (slowly) direction.held.front().first = time + std::chrono::milliseconds(10);
    if (bytes.empty()) direction.held.pop_front();
  }
  if (direction.ended && direction.held.empty() && !direction.shut) {
    ::shutdown(direction.to, SHUT_WR);
    direction.shut = true;
  }
}

void TcpProxy::State::close_all(bool reset) {
  for (Connection& connection : connections) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    for (const int fd : {connection.directions[0].from, connection.directions[0].to}) {
      if (reset) ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      ::close(fd);
    }
  }
  connections.clear();
}

void TcpProxy::State::run() {
  while (!stopping) {
    std::vector<pollfd> waits{{.fd = listener, .events = POLLIN, .revents = 0}};
    for (Connection& connection : connections) {
      for (Direction& direction : connection.directions) {
        const bool wants = !direction.ended && direction.bytes < kMostHeld;
        waits.push_back({.fd = wants ? direction.from : -1, .events = POLLIN, .revents = 0});
      }
    }
    ::poll(waits.data(), waits.size(), 2);
    std::size_t at = 1;
    for (Connection& connection : connections) {
      for (Direction& direction : connection.directions) {
        if (waits[at++].revents != 0) take(direction);
        give(direction, connection.over);
      }
    }
    if ((waits[0].revents & POLLIN) != 0) accept_one();
    if (mood == Mood::kResets && !connections.empty()) {
      meddled += connections.size();
      close_all(true);
    }
    std::erase_if(connections, [](const Connection& connection) {
      const bool done =
          connection.over || (connection.directions[0].shut && connection.directions[1].shut);
      if (done) {
        ::close(connection.directions[0].from);
        ::close(connection.directions[0].to);
      }
      return done;
    });
  }
  close_all(false);
}

TcpProxy::TcpProxy(std::uint16_t server) : state_(std::make_unique<State>()) {
  state_->server = server;
  state_->listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  AFI_CHECK(::bind(state_->listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
  AFI_CHECK(::listen(state_->listener, 64) == 0);
  ::getsockname(state_->listener, reinterpret_cast<sockaddr*>(&address), &size);
  state_->port = ntohs(address.sin_port);
  state_->thread = std::thread([this] { state_->run(); });
}

TcpProxy::~TcpProxy() {
  state_->stopping = true;
  state_->thread.join();
  ::close(state_->listener);
}

std::uint16_t TcpProxy::port() const { return state_->port; }

void TcpProxy::be(Mood mood, std::uint64_t amount) {
  state_->amount = amount;
  state_->mood = mood;
}

std::uint64_t TcpProxy::meddled() const { return state_->meddled; }

}  // namespace afterimage::fire
