// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>

#include "afterimage/clock.h"
#include "afterimage/pressure.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

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
  /// Those shares of all memory used; left one point lower.
  static LadderOptions by_use(const ModesByUse& modes);
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

/// One sample of a memory: its size and its use by all programs, ourselves included.
struct MemorySample {
  Duration taken_at{0};  // on the clock of the caller of step()
  Bytes total;
  Bytes used;
  Bytes ours;  // our own part of `used`, from our ledger at that moment; the rest is external
  bool operator==(const MemorySample&) const = default;
};

/// Exact figures of our own ledger.
struct LedgerView {
  Bytes used;       // committed, reserved and in flight, together
  Bytes evictable;  // of these: unpinned, as far as known
};

struct GovernorInputs {
  Duration now{0};
  LedgerView ledger;
  /// The newest reading; nullopt: the gauge could not be read.
  std::optional<MemorySample> sample;
  Bytes planned;     // allocations that the engine has announced
  Bytes refused;     // size of an allocation that has just failed
  double stall = 0;  // share of recent time in which work stalled for lack of memory
};

/// The governor's state: a plain value that can be serialised, copied and restored.
struct GovernorState {
  LadderState ladder;
  GaugeTrust trust = GaugeTrust::kNone;
  std::optional<MemorySample> last;   // the last trusted sample
  std::optional<MemorySample> still;  // the first sample with the current `used`
  Bytes external;                     // bytes used by other programs, as of `last`
  double growth = 0;                  // of external bytes, per second; never negative
  std::optional<Bytes> target;        // as of the last step
  Duration stepped_at{0};
};

struct GovernorStep {
  GovernorState state;
  GovernorActions actions;
};

/// Decides how much to evict from the missing bytes. External use = used − ours, extrapolated over
/// the time that detection and action take; the rest of the memory, less a reserve, is ours. What
/// we hold beyond that is evicted at once.
///
/// Shape    Pure: no clock, no hidden state, no allocation. The same inputs give the same actions.
/// Promises After the actions, ours ≤ budget, except for pinned entries. More missing bytes never
///          evict less. An untrusted gauge never makes the budget grow. Admission opens again when
///          pressure ends.
/// Cost     O(1); bench/governor_bench.cc.
/// Threads  Any; values only.
/// Source   src/policy/pressure/DESIGN.md.
GovernorStep step(const GovernorState& state, const GovernorInputs& inputs,
                  const GovernorOptions& options);

/// Reads the gauge for the governor: sets `now`, `sample` and `stall`, and takes inputs.ledger.used
/// as our share of the bytes in use. If the gauge fails, there is no sample and its Error is
/// returned for the log; the governor can still step.
Result<void> take_reading(PressureGauge& gauge, const Clock& clock, GovernorInputs& inputs);

}  // namespace afterimage
