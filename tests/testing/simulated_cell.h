// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "storage/memory/shared_cell.h"

/// Servers that hold one shared value, controlled by a test. One thread.
namespace afterimage::testing {

/// A master and a replica. A replacement is on both before the caller is told of it.
struct SimulatedServers {
  std::optional<std::string> master;
  std::optional<std::string> replica;
  bool replicates = true;  // false: the replica does not reply and keeps its old value

  /// The replica is promoted and gets a replica of its own.
  void fail_over() {
    master = replica;
    replicates = true;
  }
  void lose_all() {
    master.reset();
    replica.reset();
  }
};

/// One process's connection to them.
class SimulatedCell final : public SharedCell {
 public:
  explicit SimulatedCell(SimulatedServers& servers) : servers_(servers) {}

  Result<std::optional<Value>> read() override {
    ++reads;
    if (before_reading) std::exchange(before_reading, nullptr)();
    if (unreachable) return fail(ErrorCode::kUnavailable, "the servers are unreachable");
    const auto found = servers_.master;
    // Before the reply arrives, other processes continue.
    if (after_reading) std::exchange(after_reading, nullptr)();
    if (found.has_value() && !confirmed()) return unheard();
    if (!found.has_value()) return std::nullopt;
    const auto bytes = std::as_bytes(std::span(*found));
    return Value{.bytes = {bytes.begin(), bytes.end()}, .version = *found};
  }
  Result<bool> replace(const std::optional<std::string>& expected,
                       std::span<const std::byte> next) override {
    if (before_replacing) std::exchange(before_replacing, nullptr)();
    if (unreachable) return fail(ErrorCode::kUnavailable, "the servers are unreachable");
    if (servers_.master != expected) return false;
    servers_.master = std::string(reinterpret_cast<const char*>(next.data()), next.size());
    if (answer_is_lost) return fail(ErrorCode::kUnavailable, "the reply was lost");
    if (!confirmed()) return unheard();
    return true;
  }

  bool unreachable = false;
  bool answer_is_lost = false;  // to replace()
  std::function<void()> before_reading;
  std::function<void()> after_reading;
  std::function<void()> before_replacing;
  std::atomic<int> reads = 0;

 private:
  /// The replica has everything that the master has.
  [[nodiscard]] bool confirmed() {
    if (servers_.replicates) servers_.replica = servers_.master;
    return servers_.replicates;
  }
  static std::unexpected<Error> unheard() {
    return fail(ErrorCode::kUnavailable, "not every replica has confirmed");
  }

  SimulatedServers& servers_;
};

}  // namespace afterimage::testing
