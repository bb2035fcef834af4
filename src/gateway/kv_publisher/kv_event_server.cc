// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/kv_publisher/kv_event_server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "gateway/fleet/zmtp.h"

namespace afterimage {
namespace {

struct AddressList {
  ~AddressList() {
    if (first != nullptr) ::freeaddrinfo(first);
  }
  addrinfo* first = nullptr;
};

std::uint16_t port_of(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  const bool is_six = bound.ss_family == AF_INET6;
  return ntohs(is_six ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                      : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
}

}  // namespace

class KvEventServer::Subscriber {
 public:
  explicit Subscriber(int fd) : fd_(fd), protocol_("PUB") { out_ = protocol_.to_send(); }
  ~Subscriber() { ::close(fd_); }
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  [[nodiscard]] pollfd wanted() const {
    return {.fd = fd_,
            .events = static_cast<short>(unsent() == 0 ? POLLIN : POLLIN | POLLOUT),
            .revents = 0};
  }
  /// False: it is of no more use.
  bool handle(short happened) {
    if ((happened & (POLLIN | POLLHUP | POLLERR)) != 0 && !receive()) return false;
    return unsent() == 0 || send();
  }
  void queue(const std::string& message) { out_ += message; }
  [[nodiscard]] bool is_slow() const { return unsent() > kMostUnsent; }
  [[nodiscard]] bool wants_welcome() const { return subscribed_ && !welcomed_; }
  [[nodiscard]] bool is_welcomed() const { return welcomed_; }
  void set_welcomed() { welcomed_ = true; }

 private:
  [[nodiscard]] std::size_t unsent() const { return out_.size() - sent_; }
  bool receive() {
    std::array<char, 1024> buffer;
    const ssize_t size = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    if (size == 0) return false;
    if (!protocol_.feed({buffer.data(), static_cast<std::size_t>(size)}).has_value()) return false;
    if (protocol_.buffered() > kMostRequest) return false;  // a subscription takes a few bytes
    out_ += protocol_.to_send();
    while (const auto message = protocol_.take()) {
      if (!message->front().empty()) subscribed_ = message->front().front() == '\1';
    }
    return true;
  }
  bool send() {
    const ssize_t sent = ::send(fd_, out_.data() + sent_, unsent(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    sent_ += static_cast<std::size_t>(sent);
    if (unsent() == 0) {
      out_.clear();
      sent_ = 0;
    }
    return true;
  }

  const int fd_;
  ZmtpClient protocol_;
  std::string out_;
  std::size_t sent_ = 0;
  bool subscribed_ = false;
  bool welcomed_ = false;
};

Result<std::unique_ptr<KvEventServer>> KvEventServer::listen(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' has no port", address));
  }
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  AddressList found;
  if (::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found.first) != 0) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not an address", address));
  }
  const int fd = ::socket(found.first->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (fd >= 0) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (fd < 0 || ::bind(fd, found.first->ai_addr, found.first->ai_addrlen) != 0 ||
      ::listen(fd, 16) != 0) {
    const std::string why = std::strerror(errno);
    if (fd >= 0) ::close(fd);
    return fail(ErrorCode::kUnavailable, fmt::format("cannot listen at {}: {}", address, why));
  }
  return std::unique_ptr<KvEventServer>(new KvEventServer(fd, port_of(fd)));
}

KvEventServer::KvEventServer(int fd, std::uint16_t port) : fd_(fd), port_(port) {}

KvEventServer::~KvEventServer() { ::close(fd_); }

void KvEventServer::add_wanted(std::vector<pollfd>& list) const {
  list.push_back({.fd = fd_, .events = POLLIN, .revents = 0});
  for (const auto& subscriber : subscribers_) list.push_back(subscriber->wanted());
}

bool KvEventServer::handle(const pollfd* entries) {
  const short waiting = entries->revents;
  for (auto& subscriber : subscribers_) {
    ++entries;
    if (!subscriber->handle(entries->revents)) subscriber.reset();
  }
  std::erase(subscribers_, nullptr);
  if ((waiting & POLLIN) != 0) accept();
  return std::ranges::any_of(subscribers_, [](const auto& one) { return one->wants_welcome(); });
}

void KvEventServer::accept() {
  const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return;
  if (subscribers_.size() >= kMostSubscribers) {
    ::close(fd);
    return;
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  subscribers_.push_back(std::make_unique<Subscriber>(fd));
}

void KvEventServer::publish(const std::string& message) {
  for (auto& subscriber : subscribers_) {
    if (!subscriber->is_welcomed()) continue;
    subscriber->queue(message);
    if (subscriber->is_slow()) subscriber.reset();
  }
  std::erase(subscribers_, nullptr);
}

void KvEventServer::welcome(const std::string& message) {
  for (const auto& subscriber : subscribers_) {
    if (!subscriber->wants_welcome()) continue;
    subscriber->queue(message);
    subscriber->set_welcomed();
  }
}

}  // namespace afterimage
