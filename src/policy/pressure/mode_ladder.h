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

/// How much memory there is to spare, in five words, mildest first. The numbers 0 … 4 are the
/// first VRAMAwareCache's. A mode is a label: how many bytes leave is decided by how many are
/// missing.
enum class PressureMode : unsigned char { kRelaxed, kNormal, kPressure, kCritical, kEmergency };
inline constexpr std::size_t kPressureModes = 5;

/// "relaxed", "normal", "pressure", "critical", "emergency".
std::string_view to_string(PressureMode mode);

/// What a ladder measures. In both, larger is worse.
enum class StressScale : unsigned char {
  kNeedOverHeadroom,  // bytes that are soon needed ÷ bytes free or releasable at once
  kUsedFraction,      // bytes used by anybody ÷ all there are: the first VRAMAwareCache's
};

/// One mode's border: entered at `enter` and above, left below `leave`.
struct ModeBorder {
  double enter = 0;
  double leave = 0;
};

/// Shape    borders[i] belongs to the mode i + 1; kRelaxed has none.
struct LadderOptions {
  StressScale scale = StressScale::kNeedOverHeadroom;
  std::array<ModeBorder, kPressureModes - 1> borders;
  Duration dwell = std::chrono::seconds(2);  // calm for so long before each step down
  Duration longest_dwell = std::chrono::seconds(30);
  Duration relapse = std::chrono::seconds(60);  // entered again within it: the dwell doubles

  /// Headroom of 3, 1.5, 1 and 0.5 times the need; left at 3.5, 1.8, 1.2 and 0.7.
  static LadderOptions headroom();
  /// 70, 85, 92 and 96 % of all memory used; left one point lower.
  static LadderOptions seed();
};

/// kInvalidArgument: borders that do not rise, or are not left below where they are entered.
Result<void> check(const LadderOptions& options);

/// Where a ladder stands. A value: copy it, compare it, start again from it.
struct LadderState {
  PressureMode mode = PressureMode::kRelaxed;
  std::optional<Duration> calm_since;            // below `leave` of the present mode since then
  std::array<Duration, kPressureModes> dwell{};  // of each mode; 0: as configured
  std::array<std::optional<Duration>, kPressureModes> left{};  // when it was last left downwards
  bool operator==(const LadderState&) const = default;
};

/// The state after seeing `stress` at `now`. Up at once, over several steps if need be; down one
/// step at a time, each after `dwell` of calm. Noise narrower than a border's two values therefore
/// makes at most one transition, and calm always leads back to kRelaxed.
LadderState climb(const LadderState& state, double stress, Duration now,
                  const LadderOptions& options);

}  // namespace afterimage
