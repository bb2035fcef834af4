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

/// Servers that keep one shared value, as a test wants them to be. One thread.
namespace afterimage::testing {

/// A master and a replica. What is replaced is on both before anybody hears that it is.
struct SimulatedServers {
  std::optional<std::string> master;
  std::optional<std::string> replica;
  bool replicates = true;  // false: the replica does not answer, and has what it had

  /// The replica takes over, and has a replica of its own.
  void fail_over() {
    master = replica;
    replicates = true;
  }
  void lose_all() {
    master.reset();
    replica.reset();
  }
};

/// One process's way to them.
class SimulatedCell final : public SharedCell {
 public:
  explicit SimulatedCell(SimulatedServers& servers) : servers_(servers) {}

  Result<std::optional<Value>> read() override {
    ++reads;
    if (before_reading) std::exchange(before_reading, nullptr)();
    if (unreachable) return fail(ErrorCode::kUnavailable, "no way to the servers");
    const auto found = servers_.master;
    // On its way back, while others go on.
    if (after_reading) std::exchange(after_reading, nullptr)();
    if (found.has_value() && !confirmed()) return unheard();
    if (!found.has_value()) return std::nullopt;
    const auto bytes = std::as_bytes(std::span(*found));
    return Value{.bytes = {bytes.begin(), bytes.end()}, .version = *found};
  }
  Result<bool> replace(const std::optional<std::string>& expected,
                       std::span<const std::byte> next) override {
    if (before_replacing) std::exchange(before_replacing, nullptr)();
    if (unreachable) return fail(ErrorCode::kUnavailable, "no way to the servers");
    if (servers_.master != expected) return false;
    servers_.master = std::string(reinterpret_cast<const char*>(next.data()), next.size());
    if (answer_is_lost) return fail(ErrorCode::kUnavailable, "nobody knows what became of it");
    if (!confirmed()) return unheard();
    return true;
  }

  bool unreachable = false;
  bool answer_is_lost = false;  // of replace()
  std::function<void()> before_reading;
  std::function<void()> after_reading;
  std::function<void()> before_replacing;
  std::atomic<int> reads = 0;

 private:
  /// The replica has all that the master has.
  [[nodiscard]] bool confirmed() {
    if (servers_.replicates) servers_.replica = servers_.master;
    return servers_.replicates;
  }
  static std::unexpected<Error> unheard() {
    return fail(ErrorCode::kUnavailable, "not every copy has heard");
  }

  SimulatedServers& servers_;
};

}  // namespace afterimage::testing
