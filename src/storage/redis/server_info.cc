// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/server_info.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "storage/redis/remote_address.h"

namespace afterimage {
namespace {

/// More are not counted, so that a hostile server cannot exhaust memory.
constexpr std::size_t kMaxReplicas = 256;

std::string_view next_part(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

/// "slave0", "slave17"
bool names_a_replica(std::string_view name) {
  constexpr std::string_view kReplica = "slave";
  return name.starts_with(kReplica) && name.size() > kReplica.size() &&
         std::ranges::all_of(name.substr(kReplica.size()),
                             [](char c) { return c >= '0' && c <= '9'; });
}

/// "ip=10.0.0.6,port=6379,state=online,offset=42,lag=0"
void read_replica(std::string_view fields, ServerInfo& info) {
  RemoteAddress address;
  bool online = false;
  while (!fields.empty()) {
    std::string_view value = next_part(fields, ',');
    const std::string_view name = next_part(value, '=');
    if (name == "ip" && is_host(value)) address.host = value;
    if (name == "port") {
      std::from_chars(value.data(), value.data() + value.size(), address.port);
    }
    if (name == "state") online = value == "online";
  }
  if (info.replicas.size() >= kMaxReplicas) return;
  info.replicas.push_back(std::move(address));
  info.online += online ? 1 : 0;
}

ServerMode mode_of(std::string_view text) {
  if (text == "standalone") return ServerMode::kStandalone;
  if (text == "cluster") return ServerMode::kCluster;
  return text == "sentinel" ? ServerMode::kSentinel : ServerMode::kUnknown;
}

}  // namespace

ServerInfo parse_server_info(std::string_view text) {
  ServerInfo info;
  while (!text.empty()) {
    std::string_view value = next_part(text, '\n');
    if (value.ends_with('\r')) value.remove_suffix(1);
    const std::string_view name = next_part(value, ':');
    if (name == "run_id") info.run_id = value;
    if (name == "redis_mode" || name == "server_mode") info.mode = mode_of(value);
    if (name == "role") info.is_replica = value == "slave";
    if (names_a_replica(name)) read_replica(value, info);
  }
  return info;
}

}  // namespace afterimage
