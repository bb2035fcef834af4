// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "foundation/platform/fault_points.h"

namespace afterimage {
namespace {

constexpr std::string_view kNoAnswer = "the server did not answer in time";
constexpr std::string_view kReadsTooSlowly = "the server reads too slowly; send timed out";

/// The first byte of the alert that a TLS server sends when it is spoken to without TLS. No reply
/// begins with it.
bool is_tls_alert(char first) { return first == '\x15'; }

/// The timeout for poll(), rounded up so that poll() does not return just before the deadline and
/// spin.
int milliseconds_until(Duration deadline, Duration now) {
  if (deadline <= now) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<int>(std::min<std::int64_t>(left, 1'000'000));
}

}  // namespace

Result<std::unique_ptr<RespConnection>> RespConnection::connect(const std::string& name,
                                                                const SocketAddress& to,
                                                                const Clock& clock,
                                                                Duration deadline,
                                                                const Security& security) {
  const int fd = ::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return fail(ErrorCode::kUnavailable,
                name + ": cannot create a socket: " + std::strerror(errno));
  }
  std::unique_ptr<RespConnection> connection(new RespConnection(name, fd, clock));
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // a Unix socket has none
  // After close(), bytes still in our send buffer must not reach the server: erase relies on it.
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to.storage), to.size) != 0) {
    if (errno != EINPROGRESS) return connection->mark_lost(std::strerror(errno));
    AFI_TRY_VOID(connection->wait_for(POLLOUT, deadline));
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return connection->mark_lost(std::strerror(error));
  }
  if (security.tls != nullptr) AFI_TRY_VOID(connection->begin_tls(security, deadline));
  return connection;
}

Result<void> RespConnection::begin_tls(const Security& security, Duration deadline) {
  auto stream = TlsStream::create(security.tls, fd_, security.host);
  if (!stream.has_value()) return mark_lost(stream.error().message);
  tls_ = *std::move(stream);
  while (true) {
    const auto done = tls_->handshake();
    if (!done.has_value()) return mark_lost(done.error().message);
    if (*done > 0) return {};
    if (clock_.now() >= deadline || !wait_for(tls_->wanted(), deadline).has_value()) {
      return mark_lost(
          "no TLS handshake in time, and a server without TLS says nothing to one: name its TLS "
          "port, "
          "or write redis:// for a server without TLS",
          ErrorCode::kTimeout);
    }
  }
}

RespConnection::~RespConnection() { ::close(fd_); }

std::unexpected<Error> RespConnection::mark_lost(std::string_view why, ErrorCode code) {
  lost_ = true;
  return fail(code, name_ + ": " + std::string(why));
}

Result<void> RespConnection::wait_for(short events, Duration deadline) {
  while (true) {
    pollfd waiting{.fd = fd_, .events = events, .revents = 0};
    const int ready = ::poll(&waiting, 1, milliseconds_until(deadline, clock_.now()));
    if (ready > 0) return {};
    if (ready == 0) return mark_lost(kNoAnswer, ErrorCode::kTimeout);
    if (errno != EINTR) return mark_lost(std::strerror(errno));
  }
}

Result<void> RespConnection::send(std::span<const std::string_view> pieces, Duration deadline) {
  if (lost_) return mark_lost("the connection was lost earlier");
  constexpr std::size_t kMaxPieces = 8;
  std::array<iovec, kMaxPieces> vectors{};
  std::size_t count = 0;
  for (const std::string_view piece : pieces) {
    if (piece.empty()) continue;
    if (count == kMaxPieces) return mark_lost("too many pieces in one send");
    // sendmsg() does not write through iov_base.
    vectors[count++] = {.iov_base = const_cast<char*>(piece.data()), .iov_len = piece.size()};
  }
  const std::span<iovec> all(vectors.data(), count);
  return tls_ == nullptr ? send_plain(all, deadline) : send_tls(all, deadline);
}

Result<void> RespConnection::send_plain(std::span<iovec> vectors, Duration deadline) {
  while (!vectors.empty()) {
    const msghdr message{.msg_name = nullptr,
                         .msg_namelen = 0,
                         .msg_iov = vectors.data(),
                         .msg_iovlen = vectors.size(),
                         .msg_control = nullptr,
                         .msg_controllen = 0,
                         .msg_flags = 0};
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return mark_lost(std::strerror(errno));
      AFI_TRY_VOID(wait_for(POLLOUT, deadline));
      continue;
    }
    auto done = static_cast<std::size_t>(sent);
    while (!vectors.empty() && done >= vectors.front().iov_len) {
      done -= vectors.front().iov_len;
      vectors = vectors.subspan(1);
    }
    if (vectors.empty()) break;
    vectors.front().iov_base = static_cast<char*>(vectors.front().iov_base) + done;
    vectors.front().iov_len -= done;
    // Checked after every write: a server that reads a byte now and then must not block us forever.
    if (clock_.now() >= deadline) return mark_lost(kReadsTooSlowly, ErrorCode::kTimeout);
  }
  return {};
}

Result<void> RespConnection::send_tls(std::span<const iovec> vectors, Duration deadline) {
  for (const iovec& vector : vectors) {
    std::string_view rest(static_cast<const char*>(vector.iov_base), vector.iov_len);
    while (!rest.empty()) {
      const auto sent = tls_->write(rest);
      if (!sent.has_value()) return mark_lost(sent.error().message);
      rest.remove_prefix(*sent);
      if (*sent == 0) AFI_TRY_VOID(wait_for(tls_->wanted(), deadline));
      if (!rest.empty() && clock_.now() >= deadline) {
        return mark_lost(kReadsTooSlowly, ErrorCode::kTimeout);
      }
    }
  }
  return {};
}

Result<std::size_t> RespConnection::receive_now(std::span<char> into, short& wanted) {
  if (tls_ != nullptr) {
    const auto got = tls_->read(into);
    if (!got.has_value()) return mark_lost(got.error().message);
    wanted = tls_->wanted();
    return *got;
  }
  wanted = POLLIN;
  while (true) {
    const ssize_t got = ::recv(fd_, into.data(), into.size(), 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return 0;
    std::string why = got == 0 ? "the server closed the connection" : std::strerror(errno);
    if (!heard_) why += " before it said anything: if this is a TLS port, write rediss://";
    return mark_lost(why);
  }
}

Result<std::size_t> RespConnection::receive(std::span<char> into, Duration deadline) {
  if (lost_) return mark_lost("the connection was lost earlier");
  while (true) {
    short wanted = 0;
    AFI_TRY(const std::size_t got, receive_now(into, wanted));
    if (!heard_ && got > 0) {
      heard_ = true;
      if (tls_ == nullptr && is_tls_alert(into.front())) {
        return mark_lost("the server answers in TLS: write rediss:// instead of redis://");
      }
    }
    if (got > 0) return got;
    if (clock_.now() >= deadline) return mark_lost(kNoAnswer, ErrorCode::kTimeout);
    AFI_TRY_VOID(wait_for(wanted, deadline));
  }
}

Result<void> RespConnection::fill(Duration deadline) {
  if (lost_) return mark_lost("the connection was lost earlier");
  if (begin_ == end_) begin_ = end_ = 0;
  if (end_ == kBuffer) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  AFI_TRY(const std::size_t got,
          receive(std::span(buffer_.get() + end_, kBuffer - end_), deadline));
  end_ += got;
  if (clock_.now() >= deadline) return mark_lost(kNoAnswer, ErrorCode::kTimeout);
  return {};
}

Result<RespHead> RespConnection::read_head(Duration deadline) {
  while (true) {
    auto head = parse_resp_head(buffered());
    if (!head.has_value()) return mark_lost(head.error().message);
    if (head->has_value()) {
      begin_ += (*head)->size;
      return **std::move(head);
    }
    AFI_TRY_VOID(fill(deadline));
  }
}

Result<void> RespConnection::read_bytes(std::span<std::byte> into, Duration deadline) {
  const std::size_t known = std::min(into.size(), end_ - begin_);
  if (known > 0) std::memcpy(into.data(), buffer_.get() + begin_, known);
  begin_ += known;
  into = into.subspan(known);
  while (!into.empty()) {
    AFI_TRY(const std::size_t got,
            receive(std::span(reinterpret_cast<char*>(into.data()), into.size()), deadline));
    into = into.subspan(got);
    if (!into.empty() && clock_.now() >= deadline) return mark_lost(kNoAnswer, ErrorCode::kTimeout);
  }
  return {};
}

Result<void> RespConnection::end_bulk(Duration deadline) {
  std::array<std::byte, 2> end{};
  AFI_TRY_VOID(read_bytes(end, deadline));
  if (!AFI_GUARD("remote.bulk.end", end == std::array{std::byte{'\r'}, std::byte{'\n'}})) {
    return mark_lost("RESP violation: a bulk is longer than its length");
  }
  return {};
}

Result<RespValue> RespConnection::read_value(Duration deadline) {
  std::string bytes;  // a slot table may be larger than the buffer
  while (true) {
    bytes.append(buffered());
    begin_ = end_;
    auto parsed = parse_resp(bytes);
    if (!parsed.has_value()) return mark_lost(parsed.error().message);
    if (parsed->has_value()) {
      // Keep bytes after the reply in the buffer: usable() then refuses the connection.
      if ((*parsed)->size != bytes.size()) {
        const std::size_t rest = bytes.size() - (*parsed)->size;
        if (rest > kBuffer) return mark_lost("the server sent unrequested bytes");
        std::memcpy(buffer_.get(), bytes.data() + (*parsed)->size, rest);
        begin_ = 0;
        end_ = rest;
      }
      return std::move((*parsed)->value);
    }
    AFI_TRY_VOID(fill(deadline));
  }
}

Result<RespValue> RespConnection::ask(std::initializer_list<std::string_view> parts,
                                      Duration deadline) {
  const std::string command = resp_command(parts);
  const std::string_view piece = command;
  AFI_TRY_VOID(send(std::span(&piece, 1), deadline));
  return read_value(deadline);
}

bool RespConnection::usable() {
  if (lost_ || !AFI_GUARD("remote.given.up", !abandoned_)) return false;
  // Unrequested bytes would be taken for the reply to the next command.
  return AFI_GUARD("remote.no.more", begin_ == end_ && is_silent());
}

bool RespConnection::is_silent() {
  if (tls_ == nullptr) {
    pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
    return ::poll(&waiting, 1, 0) == 0;
  }
  // What came in one record with a reply is in the session and not in the socket any more; and between
  // replies TLS sends tickets and new keys.
  char byte = 0;
  short wanted = 0;
  const auto got = receive_now(std::span(&byte, 1), wanted);
  return got.has_value() && *got == 0;
}

}  // namespace afterimage
