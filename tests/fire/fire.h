// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/clock.h"
#include "foundation/platform/random.h"
#include "testing/tier_oracle.h"

/// Fault-injection suite: one row per kind of fault; each row counts what its faults caused.
namespace afterimage::fire {

using testing::Finding;

/// The options of one run.
struct FireRun {
  std::uint64_t seed = 1;
  bool brief = false;            // seconds rather than minutes
  std::string folder;            // on a disk; each row creates its own folder in it
  std::string quick_folder;      // the same in memory if available, for rows that need no real disk
  bool trace = false;            // print every step of one simulation
  unsigned threads = 40;         // of the multi-threaded rows
  std::uint64_t operations = 0;  // per thread; 0: the row's default
  const Clock& clock;
  std::function<void(std::uint64_t done, std::uint64_t of)> progress = nullptr;

  [[nodiscard]] std::uint64_t of(std::uint64_t full, std::uint64_t in_brief) const {
    return brief ? in_brief : full;
  }
  void tell(std::uint64_t done, std::uint64_t all) const {
    if (progress) progress(done, all);
  }
};

/// What a row counted.
struct Tally {
  std::uint64_t injected = 0;  // faults, or states after faults
  std::uint64_t detected = 0;  // of these, noticed: a miss, an error, a report or a repair
  std::uint64_t answers = 0;   // results that were checked
  std::uint64_t wrong = 0;     // results that violate a guarantee
  std::uint64_t lost = 0;      // entries whose durability had been acknowledged
  std::vector<Duration> recoveries;
  std::vector<std::string> missed;  // guarantees that failed; any of them fails the run
  std::vector<std::string> notes;

  /// Counts one checked result; `where` says how to reproduce it.
  void note(Finding finding, const std::string& where) {
    ++answers;
    if (finding == Finding::kFine) return;
    ++(finding == Finding::kLost ? lost : wrong);
    miss(std::string(testing::to_string(finding)) + ": " + where);
  }
  void miss(std::string bar) {
    constexpr std::size_t kMost = 10;
    if (missed.size() < kMost) missed.push_back(std::move(bar));
  }
  void expect(bool met, const std::string& bar) {
    if (!met) miss(bar);
  }
  [[nodiscard]] bool fine() const { return missed.empty(); }
};

struct Row {
  const char* kind;
  const char* what;
  Tally (*run)(const FireRun&);
  /// Prefixes of the names of guards that this row should notice first; other rows follow.
  std::vector<std::string_view> guards;
  bool makes_processes = false;
  bool is_timed = false;  // must not run beside other rows
};

Tally run_kills(const FireRun& run);
Tally run_rest(const FireRun& run);
Tally run_points(const FireRun& run);
Tally run_torn(const FireRun& run);
Tally run_lost(const FireRun& run);
Tally run_stale(const FireRun& run);
Tally run_forged(const FireRun& run);
Tally run_flips(const FireRun& run);
Tally run_misdirected(const FireRun& run);
Tally run_short(const FireRun& run);
Tally run_failing(const FireRun& run);
Tally run_full(const FireRun& run);
Tally run_hung(const FireRun& run);
Tally run_memory(const FireRun& run);
Tally run_clocks(const FireRun& run);
Tally run_simulation(const FireRun& run);
Tally run_history(const FireRun& run);
Tally run_network(const FireRun& run);
Tally run_cluster(const FireRun& run);
Tally run_replicas(const FireRun& run);
Tally run_leases(const FireRun& run);
Tally run_parts(const FireRun& run);
Tally run_fatal(const FireRun& run);
Tally run_readers(const FireRun& run);

/// In the order in which they run.
std::span<const Row> rows();

}  // namespace afterimage::fire
