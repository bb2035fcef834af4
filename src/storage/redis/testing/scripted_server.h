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

/// A server that speaks RESP, keeps what it is given, and lies on command.
namespace afterimage::testing {

/// What becomes of one answer.
struct Said {
  std::string bytes;
  enum class Then : unsigned char {
    kGoOn,
    kStall,      // and answers nobody on this connection any more
    kHalfClose,  // says nothing more, and still listens
    kClose,
    kDribble,  // the bytes come one by one, slowly
  } then = Then::kGoOn;
};

class ScriptedServer {
 public:
  using Words = std::vector<std::string>;
  /// The answer to a command; `honest` is what a good server would say. Called by one connection
  /// at a time.
  using Script = std::function<Said(const Words& command, const std::string& honest)>;

  /// `clustered`: says that it is a cluster of itself alone; `replica`: and of a copy that nobody
  /// reaches.
  explicit ScriptedServer(bool clustered = false, bool replica = false);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  void set_script(Script script);
  [[nodiscard]] RemoteAddress address() const;
  /// A value that it keeps, of a key other than this one if there is one.
  [[nodiscard]] std::string another_value(const std::string& key) const;
  /// Called by scripts: what is kept under a key from now on; nullopt: nothing.
  void keep(const std::string& key, const std::optional<std::string>& value);
  /// Called by scripts: which connection asks. No two have the same number.
  [[nodiscard]] std::uint64_t asking() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace afterimage::testing
