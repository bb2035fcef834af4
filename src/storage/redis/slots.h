// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "storage/redis/resp.h"

/// Redis Cluster slots: key hashing, CLUSTER SLOTS and redirections. Pure functions; any thread.
namespace afterimage {

inline constexpr std::size_t kSlots = 16384;

/// CRC16 (XMODEM), as the Redis Cluster specification requires.
[[nodiscard]] std::uint16_t crc16(std::string_view bytes);
/// The slot of a key: of what is between its first braces, if it has a hash tag there.
[[nodiscard]] std::uint16_t slot_of(std::string_view key);

/// Host and port of a server, or the path of its socket. Only a URL names a socket: what servers say
/// of others has a port.
struct RemoteAddress {
  std::string host;  // a name or an address; IPv6 without brackets
  std::uint16_t port = 6379;

  auto operator<=>(const RemoteAddress&) const = default;
  [[nodiscard]] bool is_socket() const { return port == 0 && host.starts_with('/'); }
  /// "127.0.0.1:6379", "[::1]:6379", "/run/redis.sock"
  [[nodiscard]] std::string text() const;
};

/// A range of slots (first and last inclusive), its master and its replicas.
struct SlotRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  RemoteAddress master;
  std::vector<RemoteAddress> replicas;
  /// Names of these servers that no other cluster has: their node ids, or their addresses if a
  /// server tells none.
  std::vector<std::string> members;

  bool operator==(const SlotRange&) const = default;
};

/// Parses a reply to CLUSTER SLOTS. `asked` replaces the address of a server that does not know its
/// own.
/// kCorruption: not such a reply, or ranges that overlap or are out of bounds.
Result<std::vector<SlotRange>> slot_ranges(const RespValue& answer, const RemoteAddress& asked);

/// "MOVED 3999 127.0.0.1:6381" and "ASK 3999 127.0.0.1:6381".
struct Redirection {
  bool temporary = false;  // ASK
  std::uint16_t slot = 0;
  RemoteAddress to;
};
/// Parses a MOVED or ASK error. kCorruption: the text is neither.
Result<Redirection> parse_redirection(std::string_view error, const RemoteAddress& asked);

}  // namespace afterimage
