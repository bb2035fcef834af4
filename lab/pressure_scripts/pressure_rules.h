// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "afterimage/pressure.h"
#include "lab/pressure_scripts/pressure_script.h"

namespace afterimage {

/// The result of one request to a simulated cache.
enum class Found : unsigned char { kAbove, kBelow, kStored, kRefused };

/// A simulated cache under one set of rules.
class SimulatedCache {
 public:
  virtual ~SimulatedCache() = default;
  /// Reads the gauge and acts on it. Returns the delay until the next call.
  virtual Duration poll(Duration now, const std::optional<GaugeReading>& reading,
                        Bytes refused) = 0;
  /// Called only after a poll, like all that follow.
  virtual Found request(std::uint32_t object, Duration now) = 0;
  /// 0 before the first poll.
  [[nodiscard]] virtual Bytes held() const = 0;
  [[nodiscard]] virtual Bytes budget() const = 0;
  [[nodiscard]] virtual Bytes copied() const = 0;
  [[nodiscard]] virtual std::uint64_t entries() const = 0;
  [[nodiscard]] virtual PressureMode mode() const = 0;
  [[nodiscard]] virtual bool open() const = 0;
};

/// The real caches under the real controller, in simulated time: encoder outputs with bytes of the
/// script's size, and a tier below, in the host's memory.
std::unique_ptr<SimulatedCache> governed_cache(const PressureScript& script);

/// The rules of the first VRAMAwareCache as written: a check every two seconds, a policy that runs
/// when the mode changes and at every store under pressure, a quarter of the entries at a time. One
/// deviation in its favour: evicting frees the bytes.
std::unique_ptr<SimulatedCache> seed_cache(const PressureScript& script);

}  // namespace afterimage
