// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"

/// Parser and writer for RESP2, the protocol of Redis and Valkey. No I/O.
///
/// Errors   kCorruption: the bytes are not RESP2 or exceed the limits; any bytes may be given.
///          nullopt: valid so far, but incomplete.
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
  std::int64_t number = 0;  // of kNumber; kBulk: its bytes; kList: its items
  std::size_t size = 0;     // bytes of the line, including its end
};
/// The longest first line that is accepted: a text, an error or a number.
inline constexpr std::size_t kLongestRespLine = 4096;
/// The servers' own limit for one value.
inline constexpr std::int64_t kLargestRespBulk = std::int64_t{512} << 20U;

Result<std::optional<RespHead>> parse_resp_head(std::string_view bytes);

/// The code of an error reply, which the protocol defines as its first word: "MOVED", "NOPERM".
[[nodiscard]] constexpr std::string_view resp_error_code(std::string_view error) {
  return error.substr(0, error.find(' '));
}

/// A whole value.
struct RespValue {
  RespKind kind = RespKind::kNil;
  std::string text;  // of kText, kError and kBulk
  std::int64_t number = 0;
  std::vector<RespValue> items;

  bool operator==(const RespValue&) const = default;
};
struct RespLimits {
  Bytes bytes = 4_MiB;  // of the whole value
  std::size_t depth = 6;
  std::size_t items = 1U << 17U;  // over all lists together
};
struct ParsedResp {
  RespValue value;
  std::size_t size = 0;  // bytes consumed
};

Result<std::optional<ParsedResp>> parse_resp(std::string_view bytes, const RespLimits& limits = {});
/// The encoding that parse_resp() reads back as `value`.
[[nodiscard]] std::string to_resp(const RespValue& value);

/// A command and its arguments in RESP: a list of bulks.
[[nodiscard]] std::string resp_command(std::span<const std::string_view> parts);
[[nodiscard]] std::string resp_command(std::initializer_list<std::string_view> parts);
/// The bytes before and after a value that is sent from the caller's memory without a copy.
struct RespAround {
  std::string before;
  std::string after;
};
/// SET key <value> PX ttl; with GET if `return_replaced`, so that the reply is the replaced value.
[[nodiscard]] RespAround resp_set(std::string_view key, std::size_t value_bytes, Duration ttl,
                                  bool return_replaced = false);

/// A duration as an argument of PX, PEXPIRE or WAIT: whole milliseconds.
[[nodiscard]] std::string milliseconds_text(Duration time);

}  // namespace afterimage
