// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"

/// RESP2, the protocol of Redis and Valkey: bytes in, values out, and back; no I/O.
///
/// Errors   kCorruption: bytes that are not RESP2, or more than the limits allow. Any bytes may be
///          given. nullopt: right so far, and more is to come.
/// Threads  Any.
/// Source   https://redis.io/docs/latest/develop/reference/protocol-spec/
namespace afterimage {

enum class RespKind : unsigned char {
  kText,    // +OK
  kError,   // -ERR …
  kNumber,  // :1
  kBulk,    // $3
  kList,    // *2
  kNil,     // $-1 and *-1
};

/// The first line of a value.
struct RespHead {
  RespKind kind = RespKind::kNil;
  std::string text;         // of kText and kError
  std::int64_t number = 0;  // of kNumber; of kBulk the bytes, of kList the items that follow
  std::size_t size = 0;     // bytes of the line, its end included
};
/// The longest line that is read: what a server says in words, or a number.
inline constexpr std::size_t kLongestRespLine = 4096;
/// No server keeps more under one key.
inline constexpr std::int64_t kLargestRespBulk = std::int64_t{512} << 20U;

Result<std::optional<RespHead>> parse_resp_head(std::string_view bytes);

/// A whole value.
struct RespValue {
  RespKind kind = RespKind::kNil;
  std::string text;  // of kText, kError and kBulk
  std::int64_t number = 0;
  std::vector<RespValue> items;

  bool operator==(const RespValue&) const = default;
};
struct RespLimits {
  Bytes bytes = 4_MiB;  // of the whole
  std::size_t depth = 6;
  std::size_t items = 1U << 17U;  // of all lists together
};
struct ParsedResp {
  RespValue value;
  std::size_t size = 0;  // bytes that it took
};

Result<std::optional<ParsedResp>> parse_resp(std::string_view bytes, const RespLimits& limits = {});
/// What parse_resp() reads as `value`.
[[nodiscard]] std::string to_resp(const RespValue& value);

/// A command and its arguments, as servers take them.
[[nodiscard]] std::string resp_command(std::initializer_list<std::string_view> parts);
/// The same around a value that is not copied: what goes before it and what after.
struct RespAround {
  std::string before;
  std::string after;
};
/// SET key <value> PX ttl, and GET if what it replaces is to be told.
[[nodiscard]] RespAround resp_set(std::string_view key, std::size_t value_bytes, Duration ttl,
                                  bool tells_replaced = false);

/// A duration as an argument of PX, PEXPIRE or WAIT: whole milliseconds.
[[nodiscard]] std::string milliseconds_text(Duration time);

}  // namespace afterimage
