// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

/// The publishing side of ZeroMQ over TCP (a PUB socket, ZMTP 3): sends each message to all
/// subscribers. One that does not read is cut off; when it comes again it gets the welcome.
/// Subscribers are strangers: they are bounded in number and in what they may send.
///
/// Shape    add_wanted() → poll() → handle(), in a loop of its owner.
/// Errors   listen: kUnavailable: the address is taken or not this machine's.
/// Threads  Not thread-safe: one owner.
class KvEventServer {
 public:
  static constexpr std::size_t kMostSubscribers = 64;
  static constexpr std::size_t kMostUnsent = std::size_t{16} << 20U;  // of one subscriber
  static constexpr std::size_t kMostRequest = 4096;                   // that one may send

  /// `address`: "127.0.0.1:5557", "[::1]:0"; port 0 is any free one.
  static Result<std::unique_ptr<KvEventServer>> listen(const std::string& address);
  ~KvEventServer();
  KvEventServer(const KvEventServer&) = delete;
  KvEventServer& operator=(const KvEventServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  void add_wanted(std::vector<pollfd>& list) const;
  /// The entries that add_wanted() added. True: a subscriber came that wants a welcome.
  bool handle(const pollfd* entries);
  /// To all that were welcomed.
  void publish(const std::string& message);
  /// To those that were not; later messages follow it.
  void welcome(const std::string& message);
  [[nodiscard]] std::size_t subscribers() const { return subscribers_.size(); }

 private:
  class Subscriber;
  KvEventServer(int fd, std::uint16_t port);
  void accept();

  const int fd_;
  const std::uint16_t port_;
  std::vector<std::unique_ptr<Subscriber>> subscribers_;
};

}  // namespace afterimage
