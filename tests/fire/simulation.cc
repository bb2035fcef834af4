// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// The whole stack in one thread, thousands of times, with a different seed each time.
#include "fire/simulated_stack.h"

namespace afterimage::fire {
namespace {

std::uint64_t live_once(std::uint64_t seed, Tally& tally, bool trace = false) {
  SimulatedStack stack(SimulatedOptions::of(seed), tally, trace);
  stack.safety();
  stack.liveness();
  tally.detected += stack.faults();
  return stack.digest();
}

}  // namespace

Tally run_simulation(const FireRun& run) {
  Tally tally;
  const std::uint64_t seeds = run.trace ? 1 : run.of(20'000, 400);
  std::uint64_t faults = 0;
  for (std::uint64_t n = 0; n < seeds; ++n) {
    const std::uint64_t seed = run.seed + n;
    const std::uint64_t digest = live_once(seed, tally, run.trace);
    ++tally.injected;
    // Debugging a failing seed relies on exact repetition.
    if (n % 50 == 0) {
      Tally again;
      tally.expect(live_once(seed, again) == digest,
                   "a seed is not deterministic: " + SimulatedOptions::of(seed).text());
    }
    run.tell(n + 1, seeds);
  }
  faults = std::exchange(tally.detected, tally.injected);
  tally.notes.push_back(
      std::to_string(faults) + " faults in " + std::to_string(seeds) +
      " runs, each followed by a run without faults until everything is found again");
  return tally;
}

}  // namespace afterimage::fire
