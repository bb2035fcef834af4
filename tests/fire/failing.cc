// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Every disk operation fails once, the first, the second and so on, until the work completes; then
// all operations from the n-th on fail.
#include "fire/fire.h"
#include "testing/log_story.h"

namespace afterimage::fire {

using testing::DiskFault;
using testing::LogStory;

namespace {

constexpr int kSteps = 60;

/// Whether the run reached the fault.
bool fail_at(const FireRun& run, std::uint64_t seed, DiskFault fault, std::uint64_t n,
             std::uint64_t count, Tally& tally) {
  LogStory story(Rng(seed), 4_MiB);
  story.disk.fail(fault, n, count);
  const bool opened = story.open();
  if (opened) {
    story.run(kSteps);
    story.log->check_invariants();
    // A second flush may succeed only if everything it promises is durable.
    story.flush();
  }
  const bool met = story.disk.operations() >= n;
  story.disk.fail(DiskFault::kNone, 1);
  if (opened) {
    story.run(10);
    story.flush();
  }
  const bool power_fails = n % 2 == 0;
  if (power_fails) {
    story.crash();
  } else {
    story.log.reset();
    story.oracle.process_ended();
  }
  const Duration began = run.clock.now();
  // Entries that a failed sync or write lost must be reported as lost; their state is uncertain.
  story.reopen(opened);
  tally.recoveries.push_back(run.clock.now() - began);
  if (met) ++tally.injected;
  if (met) ++tally.detected;
  tally.answers += LogStory::kKeys;
  tally.wrong += story.wrong;
  tally.lost += story.lost;
  if (!story.fine()) {
    tally.miss(story.broken.front() + ": operation " + std::to_string(n) + ", " +
               std::to_string(count) + " fail, fault " + std::to_string(static_cast<int>(fault)) +
               ", story " + std::to_string(seed) + ", --only failing --seed " +
               std::to_string(run.seed));
  }
  return met;
}

}  // namespace

Tally run_failing(const FireRun& run) {
  Tally tally;
  const std::uint64_t stories = run.of(6, 1);
  for (std::uint64_t story = 0; story < stories; ++story) {
    const std::uint64_t seed = run.seed * 1'000 + story;
    for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{3}, ~std::uint64_t{0}}) {
      const std::uint64_t step = run.of(1, count == 1 ? 1 : 7);
      for (std::uint64_t n = 1; fail_at(run, seed, DiskFault::kError, n, count, tally); n += step) {
        run.tell(story, stories);
      }
    }
  }
  return tally;
}

}  // namespace afterimage::fire
