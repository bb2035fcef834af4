// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "afterimage/result.h"

/// Sockets for targets that need a real connection.
namespace afterimage::testing {

/// One end of a connection on this machine. It resets instead of closing, so that connections leave no
/// port in TIME_WAIT unless the server has closed first.
class LoopbackSocket {
 public:
  explicit LoopbackSocket(int socket) : socket_(socket) {
    AFI_CHECK(socket_ >= 0);
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    const timeval timeout{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  }
  ~LoopbackSocket() { ::close(socket_); }
  LoopbackSocket(const LoopbackSocket&) = delete;
  LoopbackSocket& operator=(const LoopbackSocket&) = delete;

  static int connected_to(std::uint16_t port) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // A port in TIME_WAIT is taken for a minute, and thousands of executions a second take all there
    // are. libFuzzer's clock is a signal, which interrupts what waits.
    constexpr int kMostAttempts = 700;
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (::connect(socket, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0) {
        return socket;
      }
      const int failed = errno;
      ::close(socket);
      AFI_CHECK(failed == EADDRNOTAVAIL || failed == EINTR);
      if (failed != EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    AFI_CHECK(false);
  }

  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto sent =
          again([&] { return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  /// Shuts down the sending direction.
  void end() const { ::shutdown(socket_, SHUT_WR); }
  /// Everything until the other side closes or resets.
  [[nodiscard]] std::string read_all() const {
    std::string all;
    std::array<char, 16384> piece{};
    const auto receive = [&] { return ::recv(socket_, piece.data(), piece.size(), 0); };
    for (ssize_t got = 0; (got = again(receive)) > 0;) {
      all.append(piece.data(), static_cast<std::size_t>(got));
    }
    return all;
  }

 private:
  template <typename Call>
  static ssize_t again(const Call& call) {
    while (true) {
      const ssize_t result = call();
      if (result >= 0 || errno != EINTR) return result;
    }
  }

  int socket_;
};

/// Sends `text` in two pieces, so that the parser stops in the middle of something.
inline std::string exchange(std::uint16_t port, std::string_view text) {
  const LoopbackSocket socket(LoopbackSocket::connected_to(port));
  const std::size_t cut = text.empty() ? 0 : static_cast<std::uint8_t>(text.back()) % text.size();
  socket.send(text.substr(0, cut));
  socket.send(text.substr(cut));
  socket.end();
  return socket.read_all();
}

}  // namespace afterimage::testing
