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

/// One reading of a memory: how much there is and how much anybody uses, ourselves included.
struct MemorySample {
  Duration taken_at{0};  // on the clock of whoever steps the governor
  Bytes total;
  Bytes used;
  Bytes ours;  // what of `used` is our own, from our ledger at that moment: the rest is others'
  bool operator==(const MemorySample&) const = default;
};

/// What our own ledger says, exactly.
struct LedgerView {
  Bytes used;      // committed, reserved and in flight, together
  Bytes clean;     // of these: unpinned, with an intact copy below, so that they leave for free
  Bytes cleaning;  // of these: their copy is being made
};

/// How long an entry may go unused; nullopt: for ever. Looked at in every step.
struct IdleLimits {
  std::optional<Duration> relaxed;
  std::optional<Duration> normal;  // in kPressure and kCritical too
  std::optional<Duration> emergency;
  std::optional<Duration> offload;  // in kCritical and worse: idle entries move down

  /// Ten minutes, 120 s, 30 s, 30 s: as the first VRAMAwareCache documents them.
  static IdleLimits seed();
};

/// Units    Bytes of the governed memory; times on the caller's clock.
struct GovernorOptions {
  Bytes cap;      // ours at most, however much is free
  Bytes reserve;  // to stay free beside what is soon needed: what others may take before we react
  /// The target's limit while no gauge can be believed, and all we may hold before the first
  /// reading; nullopt: half the cap.
  std::optional<Bytes> blind_cap;
  /// Kept with a copy below once memory is no longer plentiful; nullopt: as much as the reserve.
  std::optional<Bytes> clean_target;
  Duration horizon = std::chrono::milliseconds(150);  // detection plus action
  Duration stale_after = std::chrono::milliseconds(150);
  Duration tick = std::chrono::milliseconds(50);
  Duration busy_tick = std::chrono::milliseconds(5);
  double regrow_per_second = 0.05;        // of the cap: taken back slowly, given at once
  double clean_bytes_per_second = 4.0e9;  // what cleaning may cost the way down
  double stall_limit = 0.10;              // share of time lost to memory stalls (PSI) that counts
  LadderOptions ladder = LadderOptions::headroom();
  IdleLimits idle;

  [[nodiscard]] Bytes blind() const { return blind_cap.value_or(Bytes(cap.value() / 2)); }
  [[nodiscard]] Bytes clean_wanted() const { return clean_target.value_or(reserve); }
};

/// kInvalidArgument: no cap, no reserve, a blind cap above the cap, times that are not positive, a
/// rate that is not a rate, or a ladder that is none.
Result<void> check(const GovernorOptions& options);

struct GovernorInputs {
  Duration now{0};
  LedgerView ledger;
  /// The newest reading there is; nullopt: none could be had.
  std::optional<MemorySample> sample;
  Bytes planned;     // announced by the engine for the next moments
  Bytes refused;     // an allocation that has just failed for want of so many bytes
  double stall = 0;  // share of the last moments that work stood still for want of memory
};

/// What may be believed of the gauge. Everything but kTrusted fails closed.
enum class GaugeTrust : unsigned char {
  kNone,  // there has never been a reading
  kTrusted,
  kStale,      // no new reading for too long
  kNonsense,   // nothing in all, more used than there is, or taken in the future
  kFrozen,     // the same number again and again, although we have moved
  kDisagrees,  // fewer bytes used than we alone hold
};
std::string_view to_string(GaugeTrust trust);

/// A value: serialise it, copy it, start again from it.
struct GovernorState {
  LadderState ladder;
  GaugeTrust trust = GaugeTrust::kNone;
  std::optional<MemorySample> last;   // believed last
  std::optional<MemorySample> still;  // since then the gauge has shown the same number
  Bytes external;                     // others' bytes, as of `last`
  double growth = 0;                  // of others' bytes, per second; never negative
  std::optional<Bytes> target;        // as of the last step
  Duration stepped_at{0};
};

enum class Admission : unsigned char { kOpen, kBlocked };

/// What to do now. Deletes, and replacing an entry by a smaller one, are always allowed.
struct GovernorActions {
  PressureMode mode = PressureMode::kRelaxed;
  GaugeTrust trust = GaugeTrust::kNone;
  Admission admission = Admission::kOpen;
  bool speculate = true;  // prefetch, warming, compaction: the first thing to stop
  Bytes budget;           // hard: nothing of ours may be beyond it when the actions are done
  Bytes target;           // newcomers are let in up to here; the reserve lies between the two
  Bytes release;          // of clean entries, now: no bytes move
  Bytes drop;             // of other entries, now: the clean ones are not enough
  Bytes clean;            // to copy below, in the background
  std::optional<Duration> expire_idle;
  std::optional<Duration> offload_idle;
  Duration next_step{0};  // from now
};

struct GovernorStep {
  GovernorState state;
  GovernorActions actions;
};

/// Decides what leaves, from what is missing: others' bytes = used − ours, extrapolated over the
/// time that detection and action take; what they leave over, less a reserve, is ours. Whatever we
/// hold beyond leaves at once if it is clean, and is copied below or dropped otherwise.
///
/// Shape    Pure: no clock, no memory of its own, no allocation. The same inputs give the same
///          actions.
/// Promises After the actions, ours ≤ budget (as far as it is not pinned). More missing bytes never
///          mean fewer that leave. A gauge that cannot be believed never makes a budget grow.
///          Calm opens admission again.
/// Cost     O(1); bench/governor_bench.cc.
/// Threads  Any; values only.
/// Source   src/pressure/DESIGN.md.
GovernorStep step(const GovernorState& state, const GovernorInputs& inputs,
                  const GovernorOptions& options);

}  // namespace afterimage
