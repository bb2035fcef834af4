// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/redis/slots.h"

/// What a server says about itself (INFO). Pure functions; any thread.
namespace afterimage {

enum class ServerMode : std::uint8_t { kUnknown, kStandalone, kCluster, kSentinel };

struct ServerInfo {
  std::string
      run_id;  // random, of the server's process: another one after each start; empty: not said
  ServerMode mode = ServerMode::kUnknown;
  bool is_replica = false;
  std::vector<RemoteAddress> replicas;  // attached, also those that are still copying
  std::size_t online = 0;               // of these, how many have copied everything
};

/// Reads a reply to INFO, or to INFO with a section. Any text may be given: unknown lines are
/// skipped.
[[nodiscard]] ServerInfo parse_server_info(std::string_view text);

}  // namespace afterimage
