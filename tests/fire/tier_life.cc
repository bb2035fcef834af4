// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "fire/tier_life.h"

#include "afterimage/secret.h"
#include "storage/block_io/block_files.h"
#include "storage/disk/segment_log.h"

namespace afterimage::fire {

using testing::TierOracle;

TierLife::TierLife(const FireRun& run, const std::string& within, const std::string& name)
    : clock_(run.clock), folder_(within, name), keys_(kLifeKeys), known_(1) {}

void TierLife::begin(std::uint64_t seed, bool evicts, DiskBackend backend, bool hurried) {
  folder_.empty();
  keys_.clear();
  seed_ = seed;
  evicts_ = evicts;
  backend_ = backend;
  hurried_ = hurried;
}

DiskTierOptions TierLife::options() const {
  return {.log = {.capacity = evicts_ ? 6_MiB : 256_MiB,
                  .segment_bytes = 2_MiB,
                  .batch_bytes = 256_KiB,
                  .batches = 4,
                  .commit_bytes = 1_MiB,
                  .idle_bytes = 4_MiB,
                  .read_timeout = std::chrono::seconds(20),
                  .append_timeout = hurried_ ? Duration(std::chrono::milliseconds(10))
                                             : std::chrono::seconds(20)},
          .uring = backend_ == DiskBackend::kBest};
}

int TierLife::live(Rng rng, std::uint64_t steps) {
  MemoryBudget memory(64_MiB);
  MemoryBudget room(16_MiB);
  TierOracle oracle(keys_.all(), kLifeSizes, seed_);
  const auto tier = DiskTier::open(folder_.path(), options(), memory, clock_);
  if (!tier) return 3;
  if (!store_secret(folder_.path())) return 4;
  known().opened = 1;
  std::uint64_t lost = 0;
  std::uint64_t evicted = 0;
  // Recorded before anything is acknowledged: failures and evictions so far.
  const auto notice = [&] {
    const SegmentLogStats stats = (*tier)->log().stats();
    if (stats.lost != std::exchange(lost, stats.lost)) oracle.lost_on_the_way();
    if (stats.evicted != std::exchange(evicted, stats.evicted)) {
      oracle.some_left([&](const TierKey& key) { return (*tier)->may_contain(key); },
                       [&](const TierKey& key) { return (*tier)->is_pending(key); });
    }
  };
  for (std::uint64_t step = 0; step < steps; ++step, ++known().operations) {
    const std::size_t n = rng.below(kLifeKeys);
    const std::uint64_t choice = rng.below(20);
    if (choice < 12) {
      const std::uint32_t version = oracle.begin_put(n);
      const auto done =
          (*tier)->put(oracle.key(n), oracle.meta(n, version), oracle.value(n, version));
      notice();
      if (done) oracle.put_done(n, version);
    } else if (choice < 15) {
      const auto found = (*tier)->get(oracle.key(n), room);
      ++known().answers;
      if (found && oracle.judge(n, *found, false) != Finding::kFine) ++known().wrong;
    } else if (choice < 17) {
      oracle.begin_erase(n);
      const auto done = (*tier)->erase(oracle.key(n));
      notice();
      if (done) oracle.erase_done(n);
    } else {
      const auto done = (*tier)->flush();
      notice();
      if (done) oracle.flushed();
    }
  }
  return 0;
}

void TierLife::look(Tally& tally, const std::string& where) {
  MemoryBudget memory(64_MiB);
  MemoryBudget room(16_MiB);
  TierOracle oracle(keys_.all(), kLifeSizes, seed_);
  oracle.process_ended();
  tally.answers += known().answers.exchange(0);
  if (const std::uint64_t wrong = known().wrong.exchange(0); wrong > 0) {
    tally.wrong += wrong;
    tally.miss("a wrong result while in use: " + where);
  }
  known().opened = known().operations = 0;
  const Duration began = clock_.now();
  const auto tier = DiskTier::open(folder_.path(), options(), memory, clock_);
  tally.recoveries.push_back(clock_.now() - began);
  if (!tier) return tally.miss("the tier does not open: " + to_string(tier.error()) + "; " + where);
  (*tier)->log().check_invariants();
  tally.detected += (*tier)->log().recovery().torn_entries;
  for (std::size_t n = 0; n < kLifeKeys; ++n) {
    const auto found = (*tier)->get(oracle.key(n), room);
    if (!found) {
      tally.miss("a get fails: " + to_string(found.error()) + "; " + where);
      continue;
    }
    tally.note(oracle.settle(n, *found, !evicts_), "key " + std::to_string(n) + ", " + where);
  }
  if ((*tier)->stats().used > (*tier)->stats().capacity) tally.miss("above the capacity: " + where);
}

}  // namespace afterimage::fire
