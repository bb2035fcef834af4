// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace afterimage {

/// Servers that are shared with other processes, as a call names them.
struct RemoteArgs {
  std::string url;  // empty: none
  std::string secret_file;
  std::string ttl = "24 h";
};

inline void add_remote_options(CLI::App& verb, RemoteArgs& call) {
  verb.add_option(
          "--remote", call.url,
          "Share with other processes, on other machines too, through Redis or Valkey, alone or\n"
          "as a cluster: redis://user@host:port,host:port,… with the password in the environment\n"
          "variable AFTERIMAGE_REMOTE_PASSWORD (docs/remote.md)")
      ->type_name("URL");
  verb.add_option("--secret-file", call.secret_file,
                  "32 bytes under which everything is kept and found: the same for all who share")
      ->type_name("FILE");
}

}  // namespace afterimage
