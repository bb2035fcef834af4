// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <sys/uio.h>

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
#include "storage/redis/remote_tls.h"
#include "storage/redis/resp.h"

namespace afterimage {

/// One RESP connection to one server. Values are sent from and received into the caller's memory
/// without an intermediate copy.
///
/// Time     Deadlines are absolute clock readings. Every call returns by its deadline, whatever the
///          server does.
/// Errors   kTimeout; kUnavailable: connection closed, or a protocol violation. The connection is
///          then lost() and every later call fails. An error reply (-ERR …) is a value, not an
///          error.
/// Threads  One at a time.
class RespConnection {
 public:
  /// With `tls`, the server's certificate is checked for `host`, before any command is sent.
  struct Security {
    std::shared_ptr<const RemoteTls> tls;  // nullptr: plain
    std::string host;
  };
  /// `name` appears in error messages. The clock outlives the connection.
  static Result<std::unique_ptr<RespConnection>> connect(const std::string& name,
                                                         const SocketAddress& to,
                                                         const Clock& clock, Duration deadline,
                                                         const Security& security = {});
  ~RespConnection();
  RespConnection(const RespConnection&) = delete;
  RespConnection& operator=(const RespConnection&) = delete;

  /// Sends the pieces in order; at most 8.
  Result<void> send(std::span<const std::string_view> pieces, Duration deadline);
  /// Reads the first line of a reply. For a bulk, read_bytes() and end_bulk() follow.
  Result<RespHead> read_head(Duration deadline);
  /// Reads the next bytes of a bulk.
  Result<void> read_bytes(std::span<std::byte> into, Duration deadline);
  /// Reads the terminator of a bulk whose bytes have all been read.
  Result<void> end_bulk(Duration deadline);
  /// Reads a whole reply of any kind; meant for small replies.
  Result<RespValue> read_value(Duration deadline);
  /// Sends a small command and reads its reply.
  Result<RespValue> ask(std::initializer_list<std::string_view> parts, Duration deadline);

  /// Marks the connection as not reusable, for example with a reply left half-read.
  void abandon() { abandoned_ = true; }
  /// Ready for another command: no reply is outstanding and the server has not closed it.
  [[nodiscard]] bool usable();
  /// A call failed because of the server or the network.
  [[nodiscard]] bool lost() const { return lost_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  RespConnection(std::string name, int fd, const Clock& clock)
      : name_(std::move(name)), fd_(fd), clock_(clock) {}
  std::unexpected<Error> mark_lost(std::string_view why, ErrorCode code = ErrorCode::kUnavailable);
  Result<void> wait_for(short events, Duration deadline);
  Result<void> begin_tls(const Security& security, Duration deadline);
  /// Receives at least one byte; 0: none is there now, and `wanted` says what to wait for.
  Result<std::size_t> receive_now(std::span<char> into, short& wanted);
  Result<std::size_t> receive(std::span<char> into, Duration deadline);
  /// The server has sent nothing that was not read.
  bool is_silent();
  Result<void> send_plain(std::span<iovec> vectors, Duration deadline);
  Result<void> send_tls(std::span<const iovec> vectors, Duration deadline);
  /// Reads at least one more byte into the buffer.
  Result<void> fill(Duration deadline);
  [[nodiscard]] std::string_view buffered() const {
    return std::string_view(buffer_.get() + begin_, end_ - begin_);
  }

  static constexpr std::size_t kBuffer = 16384;
  static_assert(kBuffer > kLongestRespLine + 2);

  std::string name_;
  int fd_;
  const Clock& clock_;
  std::unique_ptr<TlsStream> tls_;  // nullptr: plain
  bool heard_ = false;              // the server has said something
  bool lost_ = false;
  bool abandoned_ = false;
  std::unique_ptr<char[]> buffer_ = std::make_unique<char[]>(kBuffer);
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace afterimage
