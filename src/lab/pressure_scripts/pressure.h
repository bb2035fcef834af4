// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "afterimage/governor.h"
#include "lab/pressure_scripts/pressure_script.h"

namespace afterimage {

/// By whose rules a simulated cache lives.
enum class PressureRules : unsigned char {
  kGovernor,
  kSeed,  // the first VRAMAwareCache's, as they were written
};

struct ModeChange {
  Duration at{0};
  PressureMode from = PressureMode::kRelaxed;
  PressureMode to = PressureMode::kRelaxed;
};

struct ExpectationOutcome {
  std::string text;
  double found = 0;
  bool met = false;
};

/// What happened while a script ran. Times are the script's, not this machine's.
struct PressureReport {
  PressureRules rules = PressureRules::kGovernor;
  Duration ran{0};
  std::uint64_t requests = 0;
  std::uint64_t hits = 0;        // in the governed memory
  std::uint64_t hits_below = 0;  // brought back from below
  std::uint64_t refused = 0;     // computed and not kept: blocked, or no room
  std::uint64_t oom = 0;         // times that more was used than there is
  std::uint64_t violations = 0;  // looks at which we held more than the budget in force
  std::vector<ModeChange> changes;
  std::array<Duration, kPressureModes> time_in_mode{};
  std::vector<Duration> releases;  // how long others had eaten into the reserve, shortest first
  Bytes peak;                      // of ours
  Bytes copied;                    // below
  std::uint64_t entries = 0;       // kept at the end
  bool open = true;                // does the end find admission open?
  std::vector<ExpectationOutcome> expectations;

  [[nodiscard]] double hit_rate() const;
  /// Nearest rank; 0 if the reserve was never touched.
  [[nodiscard]] Duration release_percentile(int percent) const;
  /// All expectations met.
  [[nodiscard]] bool fine() const;
};

/// Runs a script in simulated time: a memory that others share, a cache under load, a gauge that is
/// read, copies that take time. The governor, its books and its policies are the real ones.
///
/// Shape    Steps of one millisecond; the same script gives the same report everywhere.
/// Threads  Any.
PressureReport run_pressure(const PressureScript& script, PressureRules rules);

/// For a person: the governor's report, with the seed's rules beside it.
std::string to_table(const PressureReport& governor, const PressureReport& seed);
/// For a program. Times are milliseconds, sizes bytes.
std::string to_json(const PressureReport& governor, const PressureReport& seed);

}  // namespace afterimage
