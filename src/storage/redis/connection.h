// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "storage/redis/remote_address.h"
#include "storage/redis/resp.h"

namespace afterimage {

/// One connection to one server. What is sent is written from the caller's memory, and bulks are
/// read into it, without a copy between.
///
/// Deadlines are readings of the clock. A call ends at its deadline, whatever the server does.
///
/// Errors   kUnavailable: the server is silent, gone, or speaks something else: the connection is
///          lost() then, and every later call fails. What a server refuses in words is no error.
/// Threads  One at a time.
class RespConnection {
 public:
  /// `name` is for messages. The clock outlives the connection.
  static Result<std::unique_ptr<RespConnection>> connect(const std::string& name,
                                                         const SocketAddress& to,
                                                         const Clock& clock, Duration deadline);
  ~RespConnection();
  RespConnection(const RespConnection&) = delete;
  RespConnection& operator=(const RespConnection&) = delete;

  /// Piece after piece.
  Result<void> send(std::span<const std::string_view> pieces, Duration deadline);
  /// The first line of an answer. After a bulk's comes read_bulk().
  Result<RespHead> read_head(Duration deadline);
  /// The next bytes of a bulk.
  Result<void> read_bytes(std::span<std::byte> into, Duration deadline);
  /// The end of a bulk whose bytes have all been read.
  Result<void> end_bulk(Duration deadline);
  /// An answer of any kind, whole; for small ones.
  Result<RespValue> read_value(Duration deadline);
  /// A command of few bytes, and its answer.
  Result<RespValue> ask(std::initializer_list<std::string_view> parts, Duration deadline);

  /// What is under way does not matter any more: the connection is not used again.
  void give_up() { given_up_ = true; }
  /// Fit for another command: nothing is under way, and the server has not closed it.
  [[nodiscard]] bool usable() const;
  /// The server's fault.
  [[nodiscard]] bool lost() const { return lost_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  RespConnection(std::string name, int fd, const Clock& clock)
      : name_(std::move(name)), fd_(fd), clock_(clock) {}
  std::unexpected<Error> lose(std::string_view why);
  Result<void> wait_for(short events, Duration deadline);
  /// At least a byte more into the buffer.
  Result<void> fill(Duration deadline);
  [[nodiscard]] std::string_view buffered() const {
    return std::string_view(buffer_.get() + begin_, end_ - begin_);
  }

  static constexpr std::size_t kBuffer = 16384;
  static_assert(kBuffer > kLongestRespLine + 2);

  std::string name_;
  int fd_;
  const Clock& clock_;
  bool lost_ = false;
  bool given_up_ = false;
  std::unique_ptr<char[]> buffer_ = std::make_unique<char[]>(kBuffer);
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace afterimage
