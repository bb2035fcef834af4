// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

/// One server of upstream.replicas.
///
/// Shape    A URL, then any of these, separated by spaces:
///            name=a            in logs, metrics and headers; else host:port
///            weight=2          its capacity, relative to the others; 0.01 to 100
///            models=qwen*,m    the models that it serves; a * stands for any text. Else all.
///            limit=64          concurrent requests; else upstream.max_connections
///            events=host:port  where it publishes KV events (vLLM: --kv-events-config)
///            replay=host:port  where it repeats those that were missed
///            tokenize=5        prompts a second that it is asked to tokenize, so that its events
///                              confirm content; 0: none; 1,000 at most
///            cache_salt=true   or false, as upstream.cache_salt; else as that says
struct ReplicaSetting {
  std::string url;
  std::string name;
  double weight = 1;
  std::vector<std::string> models;  // patterns; empty: every model
  std::uint32_t limit = 0;          // 0: upstream.max_connections
  std::string events;               // "host:port"; empty: none
  std::string replay;
  std::uint32_t tokenize = 5;  // prompts a second
  std::optional<bool> cache_salt = std::nullopt;

  bool operator==(const ReplicaSetting&) const = default;
};

/// Errors   kInvalidArgument: not such a text. The message does not repeat the URL.
/// Threads  Any.
[[nodiscard]] Result<ReplicaSetting> parse_replica(std::string_view text);

/// Whether one of the patterns fits; without patterns every model does.
[[nodiscard]] bool serves_model(const ReplicaSetting& replica, std::string_view model);

/// Whether a name fits a pattern, in which each * stands for any text.
[[nodiscard]] bool fits_pattern(std::string_view pattern, std::string_view text);

/// kInvalidArgument: not the http(s) URL of a server, without user, query and fragment. The message
/// does not repeat the URL, which may contain a password.
[[nodiscard]] Result<void> check_server_url(const std::string& url);

}  // namespace afterimage
