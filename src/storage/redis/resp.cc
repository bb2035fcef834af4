// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/resp.h"

#include <algorithm>
#include <string>

#include "storage/redis/whole_number.h"

namespace afterimage {
namespace {

constexpr std::string_view kEnd = "\r\n";

std::unexpected<Error> malformed(std::string what) {
  return fail(ErrorCode::kCorruption, "invalid RESP: " + std::move(what));
}

/// Accepts only what servers write ("-1", "0", "17"): no plus sign, leading zeros or spaces.
std::optional<std::int64_t> number_of(std::string_view text) {
  const auto number = whole_number<std::int64_t>(text);
  return number.has_value() && std::to_string(*number) == text ? number : std::nullopt;
}

std::optional<RespKind> kind_of(char sign) {
  switch (sign) {
    case '+':
      return RespKind::kText;
    case '-':
      return RespKind::kError;
    case ':':
      return RespKind::kNumber;
    case '$':
      return RespKind::kBulk;
    case '*':
      return RespKind::kList;
    default:
      return std::nullopt;
  }
}

/// Reads a value and its nested items. The depth limit bounds the stack.
class ValueReader {
 public:
  ValueReader(std::string_view bytes, const RespLimits& limits) : bytes_(bytes), limits_(limits) {}

  [[nodiscard]] std::size_t size() const { return at_; }

  /// False: the value is incomplete.
  Result<bool> read(RespValue& value, std::size_t depth) {
    AFI_TRY(const auto head, parse_resp_head(bytes_.substr(at_)));
    if (!head.has_value()) return false;
    at_ += head->size;
    value = {.kind = head->kind, .text = head->text, .number = 0, .items = {}};
    if (head->kind == RespKind::kNumber) value.number = head->number;
    if (head->kind == RespKind::kBulk) return read_bulk(value, *head);
    if (head->kind == RespKind::kList) return read_items(value, *head, depth);
    return true;
  }

 private:
  Result<bool> read_bulk(RespValue& value, const RespHead& head) {
    const auto size = static_cast<std::size_t>(head.number);
    if (size > limits_.bytes.value())
      return malformed("a bulk of " + std::to_string(size) + " bytes exceeds the limit");
    const std::string_view rest = bytes_.substr(at_);
    if (rest.size() < size + kEnd.size()) {
      const std::string_view end = rest.substr(std::min(size, rest.size()));
      if (!kEnd.starts_with(end)) return malformed("a bulk is longer than its length");
      return false;
    }
    if (rest.substr(size, kEnd.size()) != kEnd)
      return malformed("a bulk is longer than its length");
    value.text = rest.substr(0, size);
    at_ += size + kEnd.size();
    return true;
  }
  Result<bool> read_items(RespValue& value, const RespHead& head, std::size_t depth) {
    const auto count = static_cast<std::size_t>(head.number);
    items_ += count;
    if (depth >= limits_.depth) return malformed("lists are nested too deeply");
    if (items_ > limits_.items) return malformed("a list has too many items");
    for (std::size_t i = 0; i < count; ++i) {
      AFI_TRY(const bool whole, read(value.items.emplace_back(), depth + 1));
      if (!whole) return false;
    }
    return true;
  }

  std::string_view bytes_;
  const RespLimits& limits_;
  std::size_t at_ = 0;
  std::size_t items_ = 0;
};

void append_bulk_head(std::string& out, std::size_t size) {
  out += '$';
  out += std::to_string(size);
  out += kEnd;
}

void append_bulk(std::string& out, std::string_view bytes) {
  append_bulk_head(out, bytes.size());
  out += bytes;
  out += kEnd;
}

}  // namespace

Result<std::optional<RespHead>> parse_resp_head(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  const auto kind = kind_of(bytes.front());
  if (!kind.has_value()) return malformed("unknown type byte");
  const std::size_t end = bytes.find_first_of(kEnd);
  if (std::min(end, bytes.size()) > kLongestRespLine) return malformed("a line is too long");
  if (end == std::string_view::npos) return std::nullopt;
  if (bytes[end] != '\r') return malformed("a line does not end in CR LF");
  if (end + 1 == bytes.size()) return std::nullopt;
  if (bytes[end + 1] != '\n') return malformed("a line does not end in CR LF");
  const std::string_view line = bytes.substr(1, end - 1);
  RespHead head{.kind = *kind, .text = {}, .number = 0, .size = end + kEnd.size()};
  if (*kind == RespKind::kText || *kind == RespKind::kError) {
    head.text = line;
    return head;
  }
  const auto number = number_of(line);
  if (!number.has_value()) return malformed("not an integer");
  head.number = *number;
  if (*kind == RespKind::kNumber) return head;
  if (*number == -1) {
    head.kind = RespKind::kNil;
    head.number = 0;
    return head;
  }
  if (*number < 0 || *number > kLargestRespBulk) return malformed("a length is out of range");
  return head;
}

Result<std::optional<ParsedResp>> parse_resp(std::string_view bytes, const RespLimits& limits) {
  ValueReader reader(bytes, limits);
  ParsedResp parsed;
  AFI_TRY(const bool whole, reader.read(parsed.value, 0));
  parsed.size = reader.size();
  if (parsed.size > limits.bytes.value() || (!whole && bytes.size() > limits.bytes.value())) {
    return malformed("a value exceeds the size limit");
  }
  if (!whole) return std::nullopt;
  return parsed;
}

std::string to_resp(const RespValue& value) {
  std::string out;
  switch (value.kind) {
    case RespKind::kText:
      return "+" + value.text + "\r\n";
    case RespKind::kError:
      return "-" + value.text + "\r\n";
    case RespKind::kNumber:
      return ":" + std::to_string(value.number) + "\r\n";
    case RespKind::kNil:
      return "$-1\r\n";
    case RespKind::kBulk:
      append_bulk(out, value.text);
      return out;
    case RespKind::kList:
      out = "*" + std::to_string(value.items.size()) + "\r\n";
      for (const RespValue& item : value.items) out += to_resp(item);
      return out;
  }
  return out;
}

std::string resp_command(std::initializer_list<std::string_view> parts) {
  return resp_command(std::span(parts.begin(), parts.size()));
}

std::string resp_command(std::span<const std::string_view> parts) {
  std::string out = "*" + std::to_string(parts.size()) + "\r\n";
  for (const std::string_view part : parts) append_bulk(out, part);
  return out;
}

RespAround resp_set(std::string_view key, std::size_t value_bytes, Duration ttl,
                    bool return_replaced) {
  RespAround frame{.before = return_replaced ? "*6\r\n" : "*5\r\n", .after = "\r\n"};
  append_bulk(frame.before, "SET");
  append_bulk(frame.before, key);
  append_bulk_head(frame.before, value_bytes);
  append_bulk(frame.after, "PX");
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(ttl).count();
  append_bulk(frame.after, std::to_string(std::max<std::int64_t>(ms, 1)));
  if (return_replaced) append_bulk(frame.after, "GET");
  return frame;
}

std::string milliseconds_text(Duration time) {
  return std::to_string(std::chrono::ceil<std::chrono::milliseconds>(time).count());
}

}  // namespace afterimage
