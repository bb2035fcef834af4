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

/// Which server of a cluster has a key. Pure; any thread.
namespace afterimage {

inline constexpr std::size_t kSlots = 16384;

/// CRC16 of the XMODEM kind, as the cluster's specification says.
[[nodiscard]] std::uint16_t crc16(std::string_view bytes);
/// Of a key without braces: what stands in braces would be hashed alone.
[[nodiscard]] std::uint16_t slot_of(std::string_view key);

/// Where a server is.
struct RemoteAddress {
  std::string host;  // a name or an address, without the brackets of IPv6
  std::uint16_t port = 6379;

  auto operator<=>(const RemoteAddress&) const = default;
  /// "127.0.0.1:6379", "[::1]:6379"
  [[nodiscard]] std::string text() const;
};

/// A range of slots, whose they are, and how many copies of them are kept elsewhere.
struct SlotRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  RemoteAddress master;
  std::vector<RemoteAddress> replicas;

  bool operator==(const SlotRange&) const = default;
};

/// What a server answers to CLUSTER SLOTS. `asked` stands where it gives no address of its own.
/// kCorruption: something else, or ranges that overlap or lie outside.
Result<std::vector<SlotRange>> slot_ranges(const RespValue& answer, const RemoteAddress& asked);

/// "MOVED 3999 127.0.0.1:6381" and "ASK 3999 127.0.0.1:6381".
struct Redirection {
  bool for_once = false;  // ASK
  std::uint16_t slot = 0;
  RemoteAddress to;
};
/// kCorruption: the text is neither.
Result<Redirection> parse_redirection(std::string_view error, const RemoteAddress& asked);

}  // namespace afterimage
