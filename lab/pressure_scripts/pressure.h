// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "afterimage/pressure.h"
#include "lab/pressure_scripts/pressure_script.h"

namespace afterimage {

/// The rules by which a simulated cache manages its memory.
enum class PressureRules : unsigned char {
  kGovernor,
  kSeed,  // the rules of the first VRAMAwareCache, unchanged
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

/// What happened while a script ran. Times are simulated.
struct PressureReport {
  PressureRules rules = PressureRules::kGovernor;
  Duration ran{0};
  std::uint64_t requests = 0;
  std::uint64_t hits = 0;        // in the governed memory
  std::uint64_t hits_below = 0;  // loaded from the tier below
  std::uint64_t refused = 0;     // computed and not cached: admission blocked, or no space
  std::uint64_t oom = 0;         // times at which more memory was used than exists
  std::uint64_t violations = 0;  // checks at which the cache held more than its current budget
  std::vector<ModeChange> changes;
  std::array<Duration, kPressureModes> time_in_mode{};
  std::vector<Duration> releases;  // how long other users held part of the reserve, shortest first
  Bytes peak;                      // of the cache
  Bytes copied;                    // to the tier below, when an entry was made
  std::uint64_t entries = 0;       // cached at the end
  bool open = true;                // whether admission is open at the end
  std::vector<ExpectationOutcome> expectations;

  [[nodiscard]] double hit_rate() const;
  /// Nearest-rank percentile; 0 if the reserve was never touched.
  [[nodiscard]] Duration release_percentile(int percent) const;
  /// Whether all expectations were met.
  [[nodiscard]] bool fine() const;
};

/// Runs a script in simulated time: memory shared with other users, a cache under load, a polled
/// gauge. The caches, their tier below and the controller are the real ones; their bytes are scaled
/// down by 1024 or more, and the report's are scaled up again.
///
/// Shape    Steps of one millisecond; the same script gives the same report on every machine.
/// Threads  Any.
PressureReport run_pressure(const PressureScript& script, PressureRules rules);

/// Human-readable: the governor's report beside that of the seed's rules.
std::string to_table(const PressureReport& governor, const PressureReport& seed);
/// Machine-readable. Times in milliseconds, sizes in bytes.
std::string to_json(const PressureReport& governor, const PressureReport& seed);

}  // namespace afterimage
