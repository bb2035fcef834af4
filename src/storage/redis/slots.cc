// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/slots.h"

#include <algorithm>
#include <bitset>
#include <optional>

#include "afterimage/result.h"
#include "storage/redis/remote_address.h"
#include "storage/redis/whole_number.h"

namespace afterimage {
namespace {

std::unexpected<Error> bad_slot_table(std::string what) {
  return fail(ErrorCode::kCorruption, "invalid CLUSTER SLOTS reply: " + std::move(what));
}

Result<std::uint16_t> slot_number(const RespValue& value) {
  if (value.kind != RespKind::kNumber || value.number < 0 ||
      value.number >= static_cast<std::int64_t>(kSlots)) {
    return bad_slot_table("a slot number is out of range");
  }
  return static_cast<std::uint16_t>(value.number);
}

/// The "ip" among the names and values that follow [host, port, id]; empty: none.
std::string_view ip_in(const RespValue& value) {
  if (value.items.size() < 4) return {};
  const std::vector<RespValue>& more = value.items[3].items;
  for (std::size_t i = 0; i + 1 < more.size(); i += 2) {
    if (more[i].text == "ip" && is_host(more[i + 1].text)) return more[i + 1].text;
  }
  return {};
}

/// [host, port, id, [name, value, …]]
Result<RemoteAddress> server_of(const RespValue& value, const RemoteAddress& asked) {
  if (value.kind != RespKind::kList || value.items.size() < 2)
    return bad_slot_table("a server is not a list of host and port");
  const RespValue& host = value.items[0];
  const RespValue& port = value.items[1];
  if (port.kind != RespKind::kNumber || port.number < 1 || port.number > 65535) {
    return bad_slot_table("a server has no valid port");
  }
  const bool unknown = host.kind == RespKind::kNil || host.text.empty();
  const bool unnamed = host.text == "?";  // its host name is wanted and not known yet
  const bool is_text = host.kind == RespKind::kNil || host.kind == RespKind::kBulk;
  if (!is_text || (!unknown && !unnamed && !is_host(host.text))) {
    return bad_slot_table("a server has no valid address");
  }
  const std::string_view ip = unnamed ? ip_in(value) : std::string_view();
  RemoteAddress server{.host = host.text, .port = static_cast<std::uint16_t>(port.number)};
  // One that does not know its own address is reachable where it was asked.
  if (unknown || unnamed) server.host = ip.empty() ? asked.host : std::string(ip);
  return server;
}

/// The node id of [host, port, id, …], or else the address.
std::string member_of(const RespValue& value, const RemoteAddress& address) {
  const bool named = value.items.size() > 2 && value.items[2].kind == RespKind::kBulk &&
                     !value.items[2].text.empty();
  return named ? value.items[2].text : address.text();
}

}  // namespace

std::uint16_t crc16(std::string_view bytes) {
  std::uint32_t crc = 0;
  for (const char c : bytes) {
    crc ^= static_cast<std::uint32_t>(static_cast<unsigned char>(c)) << 8U;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 0x8000U) != 0 ? (crc << 1U) ^ 0x1021U : crc << 1U;
    }
  }
  return static_cast<std::uint16_t>(crc);
}

std::uint16_t slot_of(std::string_view key) {
  const std::size_t open = key.find('{');
  const std::size_t close = key.find('}', open == std::string_view::npos ? open : open + 1);
  const bool has_tag = close != std::string_view::npos && close > open + 1;
  if (has_tag) key = key.substr(open + 1, close - open - 1);
  return static_cast<std::uint16_t>(crc16(key) % kSlots);
}

std::string RemoteAddress::text() const {
  if (is_socket()) return host;
  return (host.contains(':') ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<std::vector<SlotRange>> slot_ranges(const RespValue& answer, const RemoteAddress& asked) {
  if (answer.kind != RespKind::kList) return bad_slot_table("not a list");
  std::vector<SlotRange> ranges;
  std::bitset<kSlots> known;
  for (const RespValue& item : answer.items) {
    if (item.kind != RespKind::kList || item.items.size() < 3)
      return bad_slot_table("a range has fewer than three fields");
    SlotRange range;
    AFI_TRY(range.first, slot_number(item.items[0]));
    AFI_TRY(range.last, slot_number(item.items[1]));
    if (range.first > range.last) return bad_slot_table("a range ends before it begins");
    for (std::size_t slot = range.first; slot <= range.last; ++slot) {
      if (known.test(slot)) return bad_slot_table("two servers own the same slot");
      known.set(slot);
    }
    AFI_TRY(range.master, server_of(item.items[2], asked));
    range.members.push_back(member_of(item.items[2], range.master));
    for (std::size_t i = 3; i < item.items.size(); ++i) {
      AFI_TRY(RemoteAddress replica, server_of(item.items[i], asked));
      range.members.push_back(member_of(item.items[i], replica));
      range.replicas.push_back(std::move(replica));
    }
    ranges.push_back(std::move(range));
  }
  return ranges;
}

Result<Redirection> parse_redirection(std::string_view error, const RemoteAddress& asked) {
  Redirection found;
  const std::string_view code = resp_error_code(error);
  if (code != "MOVED" && code != "ASK") {
    return fail(ErrorCode::kCorruption, "the error is neither MOVED nor ASK");
  }
  found.temporary = code == "ASK";
  error.remove_prefix(std::min(code.size() + 1, error.size()));
  const std::size_t space = error.find(' ');
  const std::size_t colon = error.rfind(':');
  if (space == std::string_view::npos || colon == std::string_view::npos || colon < space) {
    return fail(ErrorCode::kCorruption, "a redirection without a valid slot, host or port");
  }
  const auto slot = whole_number<std::uint16_t>(error.substr(0, space));
  const auto port = whole_number<std::uint16_t>(error.substr(colon + 1));
  if (!slot.has_value() || *slot >= kSlots || !port.has_value() || *port == 0) {
    return fail(ErrorCode::kCorruption, "a redirection without a valid slot, host or port");
  }
  found.slot = *slot;
  const std::string_view host = error.substr(space + 1, colon - space - 1);
  found.to = {.host = host.empty() ? asked.host : std::string(host), .port = *port};
  return found;
}

}  // namespace afterimage
