// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// kill -9 at any time, also during open, of a process that writes, replaces, erases and reads.
#include <chrono>
#include <thread>

#include "fire/tier_life.h"
#include "storage/block_io/block_files.h"

namespace afterimage::fire {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kLivesAStory = 25;

/// Waits until the child has done that many operations, or has ended.
void wait_for(const TierLife& life, std::uint64_t operations, const Clock& clock) {
  const Duration until = clock.now() + 20s;
  while (life.known().operations < operations && clock.now() < until) {
    std::this_thread::sleep_for(100us);
  }
}

}  // namespace

Tally run_kills(const FireRun& run) {
  Tally tally;
  const std::uint64_t kills = run.of(2'000, 25);
  TierLife life(run, run.folder, "kills");
  Rng rng(run.seed);
  for (std::uint64_t kill = 0; kill < kills; ++kill) {
    const std::uint64_t story = kill / kLivesAStory;
    if (kill % kLivesAStory == 0) {
      life.begin(run.seed + story, story % 4 == 3,
                 story % 3 == 2 ? DiskBackend::kThreads : DiskBackend::kBest, story % 2 == 1);
    }
    const std::string where =
        "kill " + std::to_string(kill) + " of --only kills --seed " + std::to_string(run.seed);
    const Rng lived = rng.split(kill);
    Child child([&] { return life.live(lived, ~std::uint64_t{0}); });
    if (rng.chance(0.2)) {
      std::this_thread::sleep_for(std::chrono::microseconds(rng.below(6'000)));  // during open
    } else {
      wait_for(life, 1 + rng.below(40), run.clock);
      std::this_thread::sleep_for(std::chrono::microseconds(rng.below(2'000)));
    }
    if (kill % 10 == 0 && life.known().opened != 0) {
      tally.expect(!open_block_folder(life.path()).has_value(),
                   "two processes opened one folder:  " + where);
    }
    const ChildEnd end = child.kill();
    if (!end.killed()) tally.miss("the child " + end.text() + ": " + where);
    ++tally.injected;
    life.look(tally, where);
    run.tell(kill + 1, kills);
  }
  tally.detected = tally.injected;
  return tally;
}

}  // namespace afterimage::fire
