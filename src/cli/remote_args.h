// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace afterimage {

/// Environment variable with the servers' password.
inline constexpr const char* kRemotePasswordVariable = "AFTERIMAGE_REMOTE_PASSWORD";
/// Environment variable with the password of the Sentinels that a URL names.
inline constexpr const char* kSentinelPasswordVariable = "AFTERIMAGE_REMOTE_SENTINEL_PASSWORD";

/// Options for the Redis or Valkey servers that several processes share.
struct RemoteArgs {
  std::string url;  // empty: none
  std::string secret_file;
  std::string ttl = "24 h";
};

inline void add_remote_options(CLI::App& verb, RemoteArgs& args) {
  verb.add_option(
          "--remote", args.url,
          "Share caches with other processes and machines through Redis or Valkey, standalone or\n"
          "a cluster: redis://user@host:port,host:port,…, rediss:// for TLS,\n"
          "redis+sentinel://host:port,…/name or unix:///path; the password comes from the\n"
          "environment variable AFTERIMAGE_REMOTE_PASSWORD (docs/remote.md)")
      ->type_name("URL");
  verb.add_option("--secret-file", args.secret_file,
                  "File of 32 random bytes that keys are derived from; identical for everyone "
                  "who shares")
      ->type_name("FILE");
}

}  // namespace afterimage
