// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// kill -9 of a process that rests: what it put a flush interval ago must be there.
#include <sched.h>

#include <array>
#include <csignal>
#include <utility>

#include "afterimage/disk_tier.h"
#include "fire/child.h"
#include "fire/fire.h"
#include "testing/tier_entries.h"

namespace afterimage::fire {
namespace {

using namespace std::chrono_literals;
using testing::tier_bytes;
using testing::tier_key;

constexpr std::array<std::uint64_t, 4> kEntries = {1, 20, 200, 2'000};
constexpr int kNotFound = 5;

DiskTierOptions restless() {
  return {.log = {.capacity = 64_MiB, .read_timeout = 20s, .append_timeout = 20s},
          .flush_interval = 2ms};
}

std::size_t size_of(std::uint64_t n) { return n * 977 % 3'000; }

/// Puts entries, half of them twice, rests until they are written, and is killed.
int put_and_rest(const std::string& folder, std::uint64_t entries, const Clock& clock) {
  MemoryBudget memory(256_MiB);
  auto tier = DiskTier::open(folder, restless(), memory, clock);
  if (!tier) return 3;
  for (std::uint64_t n = 0; n < entries; ++n) {
    if (n % 2 == 0 && !(*tier)->put(tier_key(n), {}, tier_bytes(n + 7, 100))) return 4;
    if (!(*tier)->put(tier_key(n), {}, tier_bytes(n, size_of(n)))) return 4;
  }
  // The last one is not written yet, unless this process was slow.
  const std::uint64_t last = entries - 1;
  const auto found = (*tier)->get(tier_key(last), memory);
  if (!found || !*found || !std::ranges::equal((*found)->bytes, tier_bytes(last, size_of(last)))) {
    return kNotFound;
  }
  const Duration end = clock.now() + 5s;
  for (std::uint64_t n = 0; n < entries; ++n) {
    while ((*tier)->is_pending(tier_key(n)) && clock.now() < end) ::sched_yield();
  }
  return ::raise(SIGKILL);
}

}  // namespace

Tally run_rest(const FireRun& run) {
  Tally tally;
  const std::uint64_t kills = run.of(80, 4);
  const FireFolder folder(run.folder, "rest");
  for (std::uint64_t kill = 0; kill < kills && tally.fine(); ++kill) {
    const std::uint64_t entries = kEntries[kill % kEntries.size()];
    const std::string where = "kill " + std::to_string(kill) + " of --only rest";
    folder.empty();
    Child child([&] { return put_and_rest(folder.path(), entries, run.clock); });
    const ChildEnd end = child.wait(2min);
    tally.expect(end.code != kNotFound, "an entry was not found before it was written: " + where);
    tally.expect(end.killed(), "the process " + end.text() + ": " + where);
    ++tally.injected;
    MemoryBudget memory(256_MiB);
    const Duration begun = run.clock.now();
    const auto tier = DiskTier::open(folder.path(), restless(), memory, run.clock);
    if (!tier) {
      tally.miss(tier.error().message + ": " + where);
      break;
    }
    for (std::uint64_t n = 0; n < entries; ++n) {
      const auto found = (*tier)->get(tier_key(n), memory);
      const bool there = found && *found;
      const bool right = !there || std::ranges::equal((*found)->bytes, tier_bytes(n, size_of(n)));
      tally.note(!there  ? Finding::kLost
                 : right ? Finding::kFine
                         : Finding::kWrongBytes,
                 "entry " + std::to_string(n) + ", " + where);
    }
    tally.recoveries.push_back(run.clock.now() - begun);
    run.tell(kill + 1, kills);
  }
  tally.detected = tally.injected;
  return tally;
}

}  // namespace afterimage::fire
