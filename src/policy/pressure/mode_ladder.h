// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// How scarce memory is, mildest first. The numbers 0 … 4 are those of the original
/// VRAMAwareCache. A mode is a label: the missing bytes decide how many bytes are evicted.
enum class PressureMode : unsigned char { kRelaxed, kNormal, kPressure, kCritical, kEmergency };
inline constexpr std::size_t kPressureModes = 5;

/// "relaxed", "normal", "pressure", "critical", "emergency".
std::string_view to_string(PressureMode mode);

/// What a mode ladder measures; larger is worse.
enum class StressScale : unsigned char {
  kNeedOverHeadroom,  // bytes needed soon ÷ bytes free or releasable at once
  kUsedFraction,      // used bytes ÷ total, as in the original VRAMAwareCache
};

/// Thresholds of one mode: entered at `enter` and above, left below `leave`.
struct ModeBorder {
  double enter = 0;
  double leave = 0;
};

/// Shape    borders[i] belongs to mode i + 1; kRelaxed has none.
struct LadderOptions {
  StressScale scale = StressScale::kNeedOverHeadroom;
  std::array<ModeBorder, kPressureModes - 1> borders;
  Duration dwell = std::chrono::seconds(2);  // required calm before each step down
  Duration longest_dwell = std::chrono::seconds(30);
  /// A mode that is entered again within this time doubles its dwell.
  Duration relapse = std::chrono::seconds(60);

  /// Headroom of 3, 1.5, 1 and 0.5 times the need; left at 3.5, 1.8, 1.2 and 0.7.
  static LadderOptions headroom();
  /// 70, 85, 92 and 96 % of all memory used; left one point lower.
  static LadderOptions seed();
};

/// kInvalidArgument: thresholds that do not rise from mode to mode, or a `leave` that is not below
/// its `enter`; a dwell that is not positive or above the longest dwell.
Result<void> check(const LadderOptions& options);

/// The state of a ladder: a plain value that can be copied, compared and restored.
struct LadderState {
  PressureMode mode = PressureMode::kRelaxed;
  std::optional<Duration> calm_since;                          // when stress fell below `leave`
  std::array<Duration, kPressureModes> dwell{};                // of each mode; 0: as configured
  std::array<std::optional<Duration>, kPressureModes> left{};  // when it was last left downwards
  bool operator==(const LadderState&) const = default;
};

/// The next state for `stress` at `now`. It goes up at once, by several modes if needed, and down
/// one mode at a time, each after `dwell` of calm. So noise narrower than the gap between `enter`
/// and `leave` causes at most one transition, and calm always leads back to kRelaxed.
LadderState climb(const LadderState& state, double stress, Duration now,
                  const LadderOptions& options);

}  // namespace afterimage
