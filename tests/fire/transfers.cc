// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Misdirected and partial transfers.
#include <cerrno>

#include "afterimage/disk_tier.h"
#include "fire/child.h"
#include "fire/fire.h"
#include "foundation/platform/fault_points.h"
#include "storage/block_io/block_files.h"
#include "testing/log_story.h"

namespace afterimage::fire {

using testing::DiskFault;
using testing::LogStory;
using testing::TierOracle;

Tally run_misdirected(const FireRun& run) {
  Tally tally;
  const std::uint64_t rounds = run.of(3'000, 150);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Rng rng(run.seed * 1'000'003 + round);
    LogStory story(rng, 4_MiB);
    const DiskFault fault = round % 2 == 0 ? DiskFault::kMisdirected : DiskFault::kStray;
    story.disk.fail(fault, 1 + rng.below(120), 1 + rng.below(4));
    const bool opened = story.open();
    if (opened) story.run(40);
    if (opened) {
      story.log->check_invariants();
      story.log.reset();
    }
    story.disk.fail(DiskFault::kNone, 1);
    story.oracle.process_ended();
    // A device that misdirects a write may lose what it acknowledged.
    story.oracle.all_left();
    story.reopen(false);
    ++tally.injected;
    ++tally.detected;
    tally.answers += LogStory::kKeys;
    tally.wrong += story.wrong;
    if (!story.fine()) {
      tally.miss(story.broken.front() + ": round " + std::to_string(round) +
                 " of --only misdirected --seed " + std::to_string(run.seed));
    }
    run.tell(round + 1, rounds);
  }
  return tally;
}

namespace {

constexpr std::int64_t kBlock = 4096;
std::atomic<std::uint64_t> lies{0};
std::atomic<std::uint64_t> transfers{0};
std::atomic<std::uint64_t> liar{1};

/// One in five transfers reports an interruption or transfers only a part.
std::int64_t lie(std::int64_t truth) {
  const std::uint64_t n = transfers++;
  Rng rng(liar * 7'919 + n);
  if (truth < 0 || !rng.chance(0.2)) return truth;
  ++lies;
  switch (rng.below(3)) {
    case 0:
      return -EINTR;
    case 1:
      return -EAGAIN;
    default:
      return truth <= kBlock ? truth
                             : kBlock * (1 + static_cast<std::int64_t>(rng.below(
                                                 static_cast<std::uint64_t>(truth / kBlock))));
  }
}

std::int64_t nothing(std::int64_t truth) {
  if (truth <= 0) return truth;
  ++lies;
  return 0;
}

DiskTierOptions options(DiskBackend backend) {
  return {.log = {.capacity = 128_MiB,
                  .segment_bytes = 4_MiB,
                  .batch_bytes = 256_KiB,
                  .read_timeout = std::chrono::seconds(20),
                  .append_timeout = std::chrono::seconds(20)},
          .uring = backend == DiskBackend::kBest};
}

/// All operations must complete as if nothing had happened.
void whole_in_the_end(const FireRun& run, DiskBackend backend, Tally& tally) {
  static constexpr std::array<std::size_t, 5> kSizes = {1, 4'096, 9'000, 65'536, 600'000};
  constexpr std::size_t kKeys = 40;
  FaultSite* const site = FaultSite::find("disk.transfer");
  const FireFolder folder(run.folder, "short");
  MemoryBudget memory(64_MiB);
  MemoryBudget room(16_MiB);
  std::vector<testing::KeyState> keys(kKeys);
  TierOracle oracle(keys, kSizes, run.seed);
  liar = run.seed;
  const std::uint64_t wanted = lies + run.of(6'000, 150);
  for (std::uint64_t life = 0; lies < wanted; ++life) {
    const std::string where =
        "life " + std::to_string(life) + " of --only short --seed " + std::to_string(run.seed);
    site->lie(lie);
    auto tier = DiskTier::open(folder.path(), options(backend), memory, run.clock);
    if (!tier) return tally.miss("the tier does not open: " + to_string(tier.error()));
    for (std::size_t n = 0; n < kKeys; ++n) {
      const std::uint32_t version = oracle.begin_put(n);
      const auto put =
          (*tier)->put(oracle.key(n), oracle.meta(n, version), oracle.value(n, version));
      tally.expect(put.has_value(), "a put fails: " + where);
      if (put) oracle.put_done(n, version);
    }
    const auto flushed = (*tier)->flush();
    tally.expect(flushed.has_value(), "a flush fails: " + where);
    if (flushed) oracle.flushed();
    for (std::size_t n = 0; n < kKeys; ++n) {
      const auto found = (*tier)->get(oracle.key(n), room);
      tally.note(oracle.judge(n, found.value_or(std::nullopt), true), where);
    }
    tally.expect((*tier)->stats().damaged == 0, "counted as damage: " + where);
    tier->reset();
    site->lie(nullptr);
    run.tell(lies, wanted);
  }
}

/// A write that transfers nothing is never acknowledged.
void never_written(const FireRun& run, DiskBackend backend, Tally& tally) {
  FaultSite* const site = FaultSite::find("disk.transfer");
  for (std::uint64_t round = 0; round < run.of(200, 5); ++round) {
    const FireFolder folder(run.folder, "short");
    MemoryBudget memory(64_MiB);
    const auto tier = DiskTier::open(folder.path(), options(backend), memory, run.clock);
    if (!tier) return tally.miss("the tier does not open: " + to_string(tier.error()));
    static_cast<void>(
        (*tier)->put(testing::tier_key(round), {}, testing::tier_bytes(round, 9'000)));
    site->lie(nothing);
    const auto flushed = (*tier)->flush();
    site->lie(nullptr);
    tally.expect(!flushed.has_value(), "a write that transferred nothing was acknowledged");
  }
}

}  // namespace

Tally run_short(const FireRun& run) {
  Tally tally;
  lies = 0;
  for (const DiskBackend backend : {DiskBackend::kBest, DiskBackend::kThreads}) {
    whole_in_the_end(run, backend, tally);
    never_written(run, backend, tally);
  }
  tally.injected = tally.detected = lies;
  return tally;
}

}  // namespace afterimage::fire
