// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

/// A server that dies of a request as a process does. Link afterimage_testing_http.
namespace afterimage::testing {

/// Serves on a port of 127.0.0.1, from one thread, and does with each request what `behave` says.
/// A server that died is closed: its connections are reset, new ones are refused.
class MortalServer {
 public:
  enum class Fate : unsigned char {
    kAnswer,  // with `answer`: a whole response, or the beginning of one
    kClose,   // the connection, without a byte
    kDie,     // after `answer`, if it is not empty
  };
  struct Act {
    Fate fate = Fate::kAnswer;
    std::string answer = {};
    bool closes = false;  // the connection, after the answer
  };
  using Behave = std::function<Act(const std::string& head, const std::string& body)>;

  explicit MortalServer(Behave behave);
  ~MortalServer();
  MortalServer(const MortalServer&) = delete;
  MortalServer& operator=(const MortalServer&) = delete;

  [[nodiscard]] std::string url() const;
  [[nodiscard]] int posts() const;  // requests so far, without GET
  [[nodiscard]] bool is_dead() const;
  /// Listens again on the same port, as after a restart. Only if is_dead().
  void revive();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace afterimage::testing
