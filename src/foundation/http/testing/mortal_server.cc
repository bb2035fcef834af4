// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "testing/mortal_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <map>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "afterimage/result.h"

namespace afterimage::testing {
namespace {

int listen_on(std::uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  AFI_CHECK(socket >= 0);
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  AFI_CHECK(::bind(socket, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
  AFI_CHECK(::listen(socket, 256) == 0);
  return socket;
}

std::uint16_t port_of(int socket) {
  sockaddr_in where{};
  socklen_t size = sizeof where;
  AFI_CHECK(::getsockname(socket, reinterpret_cast<sockaddr*>(&where), &size) == 0);
  return ntohs(where.sin_port);
}

void reset(int socket) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(socket);
}

void send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

/// (head, body) of the first request, which is removed; an empty head: it is not whole.
std::pair<std::string, std::string> take_request(std::string& bytes) {
  constexpr std::string_view kLength = "Content-Length: ";
  const std::size_t end = bytes.find("\r\n\r\n");
  if (end == std::string::npos) return {};
  std::string head = bytes.substr(0, end + 2);
  const std::size_t at = head.find(kLength);
  const std::size_t length =
      at == std::string::npos ? 0 : std::stoul(head.substr(at + kLength.size()));
  if (bytes.size() < end + 4 + length) return {};
  std::string body = bytes.substr(end + 4, length);
  bytes.erase(0, end + 4 + length);
  return {std::move(head), std::move(body)};
}

}  // namespace

struct MortalServer::State {
  explicit State(Behave its) : behave(std::move(its)), wake(::eventfd(0, EFD_CLOEXEC)) {
    listener = listen_on(0);
    port = port_of(listener);
    thread = std::thread([this] { run(); });
  }
  ~State() {
    end();
    if (!dead) die();
    ::close(wake);
  }

  void end() {
    ends = true;
    const std::uint64_t one = 1;
    AFI_CHECK(::write(wake, &one, sizeof one) == sizeof one);
    if (thread.joinable()) thread.join();
  }
  /// The listener first, as in a process that ends: nobody connects who has seen a reset.
  void die() {
    ::close(listener);
    dead = true;
    for (const auto& [socket, bytes] : clients) reset(socket);
    clients.clear();
  }
  void run() {
    while (!ends && !dead) {
      std::vector<pollfd> all{{.fd = wake, .events = POLLIN, .revents = 0},
                              {.fd = listener, .events = POLLIN, .revents = 0}};
      for (const auto& [socket, bytes] : clients) {
        all.push_back({.fd = socket, .events = POLLIN, .revents = 0});
      }
      if (::poll(all.data(), all.size(), -1) < 0) continue;
      if (all[1].revents != 0) {
        const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (client >= 0) clients[client];
      }
      for (std::size_t i = 2; i < all.size() && !dead; ++i) {
        if (all[i].revents != 0) read(all[i].fd);
      }
    }
  }
  void read(int socket) {
    std::array<char, 65536> piece{};
    const auto got = ::recv(socket, piece.data(), piece.size(), 0);
    if (got <= 0) return drop(socket);
    std::string& bytes = clients[socket];
    bytes.append(piece.data(), static_cast<std::size_t>(got));
    for (auto [head, body] = take_request(bytes); !head.empty();
         std::tie(head, body) = take_request(bytes)) {
      if (!head.starts_with("GET ")) ++posts;
      const Act act = behave(head, body);
      send_all(socket, act.answer);
      if (act.fate == Fate::kDie) return die();
      if (act.fate == Fate::kClose || act.closes) return drop(socket);
    }
  }
  void drop(int socket) {
    ::close(socket);
    clients.erase(socket);
  }

  const Behave behave;
  const int wake;
  int listener = -1;
  std::uint16_t port = 0;
  std::map<int, std::string> clients;  // what they sent and was not read
  std::atomic<int> posts = 0;
  std::atomic<bool> dead = false;
  std::atomic<bool> ends = false;
  std::thread thread;
};

MortalServer::MortalServer(Behave behave) : state_(std::make_unique<State>(std::move(behave))) {}
MortalServer::~MortalServer() = default;

std::string MortalServer::url() const { return "http://127.0.0.1:" + std::to_string(state_->port); }
int MortalServer::posts() const { return state_->posts; }
bool MortalServer::is_dead() const { return state_->dead; }

void MortalServer::revive() {
  AFI_CHECK(is_dead());
  state_->thread.join();
  state_->listener = listen_on(state_->port);
  state_->dead = false;
  state_->thread = std::thread([this] { state_->run(); });
}

}  // namespace afterimage::testing
