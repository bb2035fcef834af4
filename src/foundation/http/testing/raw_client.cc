// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "testing/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "afterimage/result.h"

namespace afterimage::testing {

namespace {

/// With a timeout, calls are interrupted even when a process is only stopped and continued.
ssize_t repeated(const auto& call) {
  ssize_t result = 0;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace

RawClient::RawClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  AFI_CHECK(socket_ >= 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  AFI_CHECK(::connect(socket_, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
  const timeval timeout{.tv_sec = 60, .tv_usec = 0};  // a busy machine may stop for some seconds
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
}

RawClient::~RawClient() { close(); }

bool RawClient::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const auto sent =
        repeated([&] { return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::read_more() {
  std::array<char, 65536> piece{};
  const auto got = repeated([&] { return ::recv(socket_, piece.data(), piece.size(), 0); });
  if (got <= 0) return false;
  received_.append(piece.data(), static_cast<std::size_t>(got));
  return true;
}

bool RawClient::read_until(std::string_view text) {
  while (!received_.contains(text)) {
    if (!read_more()) return false;
  }
  return true;
}

const std::string& RawClient::read_all() {
  while (read_more()) continue;
  return received_;
}

bool RawClient::closed() {
  while (read_more()) continue;
  return errno != EAGAIN && errno != EWOULDBLOCK;
}

void RawClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

}  // namespace afterimage::testing
