// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

/// One side of a ZeroMQ connection: ZMTP 3.0 without authentication, for a SUB, DEALER or PUB
/// socket. No I/O: bytes in, messages out. A client of our own, because libzmq's queues do not
/// bound a message of endless parts.
///
/// Shape    to_send() at the start, feed() what comes, take() the messages.
/// Errors   feed: kCorruption: not ZMTP, another mechanism, or a message beyond the limits. The
///          connection is then of no more use.
/// Threads  Not thread-safe.
/// Source   rfc.zeromq.org/spec/23.
class ZmtpClient {
 public:
  static constexpr std::size_t kMostBytes = 16UL * 1024 * 1024;  // of one message
  static constexpr std::size_t kMostParts = 8;

  /// `socket` "SUB": subscribes to everything once the other side is ready. "DEALER": `first` is
  /// sent then. "PUB": the messages that come are the other side's subscriptions.
  explicit ZmtpClient(std::string_view socket, std::string first = {});

  /// Bytes that are to be sent now; they are not returned again.
  [[nodiscard]] std::string to_send();
  Result<void> feed(std::string_view bytes);
  /// The parts of the next whole message.
  [[nodiscard]] std::optional<std::vector<std::string>> take();
  [[nodiscard]] bool ready() const { return ready_; }
  /// Bytes of a message that is not whole yet.
  [[nodiscard]] std::size_t buffered() const { return in_.size() + part_bytes_; }

  /// One message as it is sent.
  [[nodiscard]] static std::string message(std::initializer_list<std::string_view> parts);

 private:
  Result<bool> read_greeting();
  /// False: more bytes are needed.
  Result<bool> read_frame();
  Result<void> take_frame(unsigned flags, std::string_view body);

  std::string first_;
  std::string out_;
  std::string in_;
  std::size_t at_ = 0;  // in in_
  bool greeted_ = false;
  bool ready_ = false;
  std::vector<std::string> parts_;
  std::size_t part_bytes_ = 0;
  std::deque<std::vector<std::string>> messages_;
};

}  // namespace afterimage
