// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/redis/slots.h"

/// A RESP server for tests: stores values like a real one, and answers as a script says.
namespace afterimage::testing {

/// One scripted reply, and what the server does after it.
struct Said {
  std::string bytes;
  enum class Then : unsigned char {
    kGoOn,
    kStall,      // stop answering on this connection
    kHalfClose,  // shut down writing, keep reading
    kClose,
    kDribble,  // send the bytes one by one, 5 ms apart
  } then = Then::kGoOn;
};

class ScriptedServer {
 public:
  using Words = std::vector<std::string>;
  /// The reply to a command; `honest` is the reply of a correct server. Called by one connection at
  /// a time. Not asked for CLUSTER, INFO of the process, and the keys of server_check.h.
  using Script = std::function<Said(const Words& command, const std::string& honest)>;

  /// `clustered`: reports a cluster with itself as the only master; `replica`: with one replica
  /// that cannot be reached.
  explicit ScriptedServer(bool clustered = false, bool replica = false);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  void set_script(Script script);
  [[nodiscard]] RemoteAddress address() const;
  /// Called by scripts: the stored value of some other key; empty if there is none.
  [[nodiscard]] std::string another_value(const std::string& key) const;
  /// Called by scripts: stores a value under a key; nullopt: removes it.
  void keep(const std::string& key, const std::optional<std::string>& value);
  /// Called by scripts: the number of the connection that sent the command; unique per connection.
  [[nodiscard]] std::uint64_t asking() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace afterimage::testing
