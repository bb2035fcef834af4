// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"
#include "caches/language/canonical_text.h"

namespace afterimage {

/// Everything that an operator may set, with its default. `afterimage serve --print-config` prints
/// it as the TOML file that would say the same.
struct ListenSettings {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any that is free

  bool operator==(const ListenSettings&) const = default;
};

struct AdminSettings {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8081;       // 0: any that is free
  std::string token;               // empty: none is asked for; then only a loopback address will do
  std::vector<std::string> hosts;  // names by which browsers may address it, besides loopback's

  bool operator==(const AdminSettings&) const = default;
};

struct UpstreamSettings {
  std::string url;      // "http://127.0.0.1:8000"; empty: the built-in engine answers
  std::string key_env;  // an environment variable with the key that it asks for, instead of the
                        // clients' own; empty: theirs are passed on
  std::string epoch;    // changes when the weights behind a model's name change
  Duration connect_timeout = std::chrono::seconds(5);
  Duration idle_timeout = std::chrono::seconds(300);  // between two pieces of an answer
  std::uint32_t max_connections = 1024;

  bool operator==(const UpstreamSettings&) const = default;
};

struct EngineSettings {  // the built-in engine
  std::string model = "afterimage-reference";
  std::uint32_t max_tokens = 64;  // if a request does not say

  bool operator==(const EngineSettings&) const = default;
};

struct MemorySettings {
  Bytes budget = 4_GiB;
  std::string policy = "worth";
  std::string disk;  // a folder; empty: memory only
  Bytes disk_size = 64_GiB;
  std::string encrypt_key_file;  // what is kept there is sealed; empty, both: it is not
  std::string encrypt_key_env;   // an environment variable instead

  bool operator==(const MemorySettings&) const = default;
  /// What is watched, so that caches give back what others need: "auto", this machine or the
  /// container it runs in; the folder of a control group; empty: nothing, and the budget stands.
  std::string governor;
};

struct RemoteSettings {
  std::string url;  // "redis://user@host:port,…"; empty: nothing is shared
  std::string password_env = "AFTERIMAGE_REMOTE_PASSWORD";  // an environment variable
  Duration ttl = std::chrono::hours(24);                    // of what is put there
  Bytes in_flight = 64_MiB;                                 // for copies on their way

  bool operator==(const RemoteSettings&) const = default;
};

struct AnswerSettings {
  bool enabled = true;
  TextRung max_match = TextRung::kCanonical;       // the loosest rung; a request may ask for less
  std::optional<Duration> ttl = std::nullopt;      // if a request does not say; absent: for ever
  std::optional<Duration> max_ttl = std::nullopt;  // a request may not ask for more
  bool assume_greedy_when_unset = false;  // treat a request without a temperature as temperature 0
  bool tool_calls = false;           // keep answers that call tools; served to the same words only
  bool cache_truncated = true;       // keep answers that max_tokens truncated; served to the same words only
  bool finish_abandoned = false;     // all clients left: let the upstream finish, for the cache
  double verify_sample_rate = 0.01;  // of hits looser than exact: asked all the same, and compared
  Bytes max_answer = 4_MiB;          // larger ones are not kept
  /// Whose hits take as long as the answer took: "off", "shared" (tenants of a group, and those
  /// without a key, who are one) or "all".
  std::string timing_protection = "off";
  Duration least_hit_time{0};  // and at least so long
  /// For the answer to what another gateway is asking now; 0: it is not waited for, and no gateway
  /// waits for this one.
  Duration coalesce_timeout = std::chrono::seconds(10);

  bool operator==(const AnswerSettings&) const = default;
};

struct MediaSettings {
  std::vector<std::string> hosts;    // whose http URLs are fetched: "images.example.org",
                                     // "*.example.org", with ":port" if it is not the usual one
  std::vector<std::string> folders;  // whose file URLs are read; absolute
  bool private_addresses = false;    // also fetch from loopback and private networks
  Bytes max_size = 32_MiB;           // of one file
  std::uint32_t max_items = 64;      // of one request
  Duration timeout = std::chrono::seconds(10);
  std::uint32_t max_redirects = 3;  // each checked like the first

  bool operator==(const MediaSettings&) const = default;
};

struct LimitSettings {
  Bytes body = 64_MiB;   // of one request
  Bytes bodies = 1_GiB;  // of all requests that are being read or answered, together
  Bytes headers = 32_KiB;
  std::uint32_t connections = 10'000;
  std::uint32_t threads = 0;  // 0: one a core, at most 8
  Duration header_timeout = std::chrono::seconds(10);
  Duration body_timeout = std::chrono::seconds(60);
  Duration idle_timeout = std::chrono::seconds(75);   // between two requests of a connection
  Duration write_timeout = std::chrono::seconds(60);  // a client that does not read
  Duration drain = std::chrono::seconds(30);

  bool operator==(const LimitSettings&) const = default;
};

struct LogSettings {
  std::string level = "info";  // debug, info, warn, error, off
  bool requests = false;       // a line for each request

  bool operator==(const LogSettings&) const = default;
};

/// Who may ask. A key is never kept in clear in memory longer than it takes to hash it.
struct TenantSettings {
  std::string name;
  std::vector<std::string> key_sha256;  // of its API keys: 64 hex digits
  std::vector<std::string> key_env;     // environment variables that hold them
  std::string group;  // tenants of one group share what they keep; declared public
  std::optional<Bytes> max_bytes = std::nullopt;  // of what is kept for it
  std::optional<std::uint64_t> max_entries = std::nullopt;
  std::optional<double> requests_per_minute = std::nullopt;
  std::optional<TextRung> max_match = std::nullopt;  // instead of answers.max_match
  std::uint64_t line = 0;                            // where the file says it

  bool operator==(const TenantSettings&) const = default;
};

struct TenancySettings {
  /// Requests without a key that is listed: "each" key is a tenant of its own (and all without any
  /// key are one), or "refuse" with 401.
  std::string unknown_keys = "each";
  std::vector<TenantSettings> tenants;

  bool operator==(const TenancySettings&) const = default;
};

struct Settings {
  ListenSettings listen;
  AdminSettings admin;
  UpstreamSettings upstream;
  EngineSettings engine;
  MemorySettings memory;
  RemoteSettings remote;
  AnswerSettings answers;
  MediaSettings media;
  LimitSettings limits;
  LogSettings log;
  TenancySettings tenancy;
  std::string secret_file;  // 32 bytes, this installation's; empty: one that ends with the process

  bool operator==(const Settings&) const = default;
};

/// Shape    One section a struct, one key a member: [answers] ttl = "24 h"; a table
///          [[tenancy.tenants]] for each tenant. Durations are text with a unit ("90 s", "10 min",
///          "24 h", "7 d"), sizes likewise ("512 MiB"); rungs by name ("text:exact", or "exact").
/// Errors   kInvalidArgument: "afterimage.toml:12: answers.ttl: …" names file, line and key: not
///          TOML, a key that there is not (and the nearest that there is), a value of another kind
///          or out of range, settings that exclude each other. All that is wrong is told at once, a
///          line each; of settings that exclude each other, once every value is one. A key whose
///          default is what is wrong has no line: "afterimage.toml: answers.ttl: …".
/// Threads  Any.
[[nodiscard]] Result<Settings> parse_settings(std::string_view toml, std::string_view file);

/// Of servers that are shared with other processes, without the secret that they need to share:
/// kInvalidArgument, with how to make one. Asked when all is known, since the call may name the
/// file.
[[nodiscard]] Result<void> check_sharing(const Settings& settings);

/// As a file that parse_settings() reads as the same, every key with a line that explains it.
/// A secret (admin.token) is shown as "…", and commented out, so that "…" never becomes one: what
/// depends on it (an address that is not loopback) is refused until it is written in again.
[[nodiscard]] std::string print_settings(const Settings& settings);

/// Which of the keys that differ take effect only at the next start: "listen.port", …
[[nodiscard]] std::vector<std::string> needs_restart(const Settings& now, const Settings& next);
/// All keys that differ.
[[nodiscard]] std::vector<std::string> changed_settings(const Settings& now, const Settings& next);

}  // namespace afterimage
