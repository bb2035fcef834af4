// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "afterimage/governor.h"
#include "lab/pressure_scripts/pressure_script.h"

namespace afterimage {

/// What became of one request to a simulated cache.
enum class Found : unsigned char { kAbove, kBelow, kStored, kRefused };

/// A simulated cache under one set of rules: what a pressure script is played to.
class Keeper {
 public:
  virtual ~Keeper() = default;
  /// Looks at the gauge and acts. Returns after how long to look again.
  virtual Duration look(Duration now, const std::optional<MemorySample>& sample, Bytes refused) = 0;
  virtual Found request(std::uint32_t object, Duration now) = 0;
  /// So many bytes may be copied below in this step.
  virtual void copy(Bytes allowance) = 0;
  [[nodiscard]] virtual Bytes held() const = 0;
  [[nodiscard]] virtual Bytes budget() const = 0;
  [[nodiscard]] virtual Bytes copied() const = 0;
  [[nodiscard]] virtual std::uint64_t entries() const = 0;
  [[nodiscard]] virtual PressureMode mode() const = 0;
  [[nodiscard]] virtual bool open() const = 0;
};

/// The governor and its books, with aged LFU.
std::unique_ptr<Keeper> governed_keeper(const PressureScript& script);

/// The first VRAMAwareCache's rules as they were written: a look every two seconds, a policy that
/// runs when the mode changes and at every store under pressure, a quarter of the entries at a
/// time. Kinder than the original in one thing: what it evicts gives its bytes back.
std::unique_ptr<Keeper> seed_keeper(const PressureScript& script);

}  // namespace afterimage
