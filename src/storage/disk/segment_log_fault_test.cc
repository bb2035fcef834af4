// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// The log on a failing disk: every kind of fault at every operation in turn.
#include <gtest/gtest.h>

#include <map>

#include "storage/disk/segment_log.h"
#include "storage/disk/testing/small_log.h"
#include "testing/fake_block_folder.h"
#include "testing/log_story.h"
#include "testing/seeds.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using testing::DiskFault;
using testing::FakeBlockFolder;
using testing::FakeDisk;
using testing::for_each_seed;
using testing::LogStory;
using testing::small_log;
using testing::tier_bytes;
using testing::tier_key;

std::uint64_t operations_of(const Rng& rng, Bytes capacity, int steps) {
  LogStory story(rng, capacity);
  EXPECT_TRUE(story.open());
  story.run(steps);
  story.log.reset();
  return story.disk.operations();
}

// Torn, lost and reordered writes.
TEST(SegmentLogCrash, AtEveryOperationNothingCommittedIsLostAndNothingWrongIsServed) {
  std::uint64_t crashes = 0;
  for_each_seed(1, [&crashes](Rng& rng) {
    constexpr int kSteps = 60;
    const std::uint64_t total = operations_of(rng, 4_MiB, kSteps);
    for (std::uint64_t n = 1; n <= total; ++n) {
      LogStory story(rng, 4_MiB);
      story.disk.fail(DiskFault::kCrash, n);
      if (story.open()) story.run(kSteps);
      story.crash();
      ++crashes;
      // Crashes again during recovery and once more afterwards.
      story.disk.fail(DiskFault::kCrash, 1 + n % 17);
      if (story.open()) story.run(5);
      story.crash();
      story.reopen(true);
      if (!story.fine())
        FAIL() << story.broken[0] << "; crash at operation " << n << " of " << total;
      story.run(10);
      story.crash();
      story.reopen(true);
      if (!story.fine()) FAIL() << story.broken[0] << "; second life after operation " << n;
    }
  });
  std::printf("%llu crashes, one at each operation: 0 wrong bytes\n",
              static_cast<unsigned long long>(crashes));
}

TEST(SegmentLogCrash, UnderACapThatEvicts) {
  for_each_seed(2, [](Rng& rng) {
    constexpr int kSteps = 80;
    const std::uint64_t total = operations_of(rng, 200_KiB, kSteps);
    for (std::uint64_t n = 1; n <= total; n += 7) {
      LogStory story(rng, 200_KiB);
      story.disk.fail(DiskFault::kCrash, n);
      if (story.open()) story.run(kSteps);
      EXPECT_LE(story.disk.bytes(), (200_KiB).value()) << "the cap holds on disk";
      story.crash();
      story.reopen(false);
      EXPECT_LE(story.disk.bytes(), (200_KiB).value());
      if (!story.fine()) FAIL() << story.broken[0] << "; crash at operation " << n;
    }
  });
}

TEST(SegmentLogFaults, FailingOperationsCostHitsAndNeverCorrectness) {
  std::map<DiskFault, std::uint64_t> faults;
  for_each_seed(1, [&faults](Rng& rng) {
    constexpr int kSteps = 60;
    const std::uint64_t total = operations_of(rng, 1_MiB, kSteps);
    for (const DiskFault fault :
         {DiskFault::kError, DiskFault::kFull, DiskFault::kHang, DiskFault::kShortRead,
          DiskFault::kMisdirected, DiskFault::kStray}) {
      for (std::uint64_t n = 1; n <= total; n += 1 + rng.below(9)) {
        LogStory story(rng, 1_MiB);
        story.disk.fail(fault, n, 1 + n % 3);
        ++faults[fault];
        if (!story.open()) continue;
        story.run(kSteps);
        story.log->check_invariants();
        story.log.reset();
        story.disk.fail(DiskFault::kNone, 1);
        story.reopen(false);
        if (!story.fine()) FAIL() << story.broken[0] << "; operation " << n << " of " << total;
      }
    }
  });
  for (const auto& [fault, count] : faults) {
    std::printf("fault %d: %llu times, 0 wrong bytes\n", static_cast<int>(fault),
                static_cast<unsigned long long>(count));
  }
}

class LogOnFaultyDisk : public ::testing::Test {
 protected:
  void open(Bytes capacity) {
    log = SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), small_log(capacity), memory)
              .value();
  }
  /// A value of two blocks under key `n`; seven of them fill a segment.
  bool append(std::uint64_t n, std::uint64_t seed) {
    return log->append(tier_key(n), {}, tier_bytes(seed, 5'000)).has_value();
  }
  bool holds(std::uint64_t n, std::uint64_t seed) {
    const auto found = log->read(tier_key(n), memory).value();
    return found && std::ranges::equal(found->bytes, tier_bytes(seed, 5'000));
  }

  FakeDisk disk;
  MemoryBudget memory{4_MiB};
  std::unique_ptr<SegmentLog> log;
};

// The system may have dropped data it could not sync, and a second sync would not report it.
TEST_F(LogOnFaultyDisk, ASegmentWhoseSyncFailedIsRemovedAndItsEntriesAreLost) {
  open(1_MiB);
  ASSERT_TRUE(append(1, 1));
  ASSERT_TRUE(log->commit().has_value());
  ASSERT_TRUE(append(2, 2));
  disk.fail(DiskFault::kError, 1);  // its write is under way; the next is the sync
  EXPECT_FALSE(log->commit().has_value());
  EXPECT_FALSE(log->contains(tier_key(1)) || log->contains(tier_key(2)));
  EXPECT_EQ(log->stats().lost, 2U);
  EXPECT_EQ(disk.files().size(), 1U) << "only the store file is left";
  log->check_invariants();
  ASSERT_TRUE(append(3, 3));
  EXPECT_TRUE(log->commit().has_value());
  EXPECT_TRUE(holds(3, 3)) << "in a segment of its own";
}

// Otherwise the replaced record would become the newest again after its successor's eviction.
TEST_F(LogOnFaultyDisk, OverwritesAReplacedRecordBeforeEvictingItsSuccessor) {
  constexpr std::uint64_t kOld = 100;
  constexpr std::uint64_t kNew = 200;
  open(140_KiB);  // two segments
  ASSERT_TRUE(append(0, kOld));
  for (std::uint64_t n = 1; n < 7; ++n) ASSERT_TRUE(append(n, n));
  ASSERT_TRUE(log->commit().has_value());
  ASSERT_TRUE(append(0, kNew));
  for (std::uint64_t n = 7; n < 9; ++n) ASSERT_TRUE(append(n, n));
  ASSERT_TRUE(holds(0, kNew)) << "written, not yet committed";
  // A write fails, so the second segment is closed and the next entry begins a third.
  disk.fail(DiskFault::kError, 1);
  for (std::uint64_t n = 9; append(n, n);) ASSERT_LT(++n, 13U);
  ASSERT_TRUE(holds(1, 1)) << "the first was read last: the second is evicted";
  ASSERT_TRUE(append(20, 20));
  ASSERT_FALSE(log->contains(tier_key(0)));
  ASSERT_TRUE(log->contains(tier_key(1)));
  disk.fail(DiskFault::kCrash, 1);
  log.reset();
  Rng rng(1);
  disk.reboot(rng);
  open(140_KiB);
  EXPECT_TRUE(holds(1, 1));
  EXPECT_EQ(log->read(tier_key(0), memory).value(), std::nullopt);
}

// An erase works even after a failed commit; records whose successors are not durable stay.
TEST_F(LogOnFaultyDisk, ErasingOneKeyKeepsTheLastDurableRecordOfOthers) {
  for (std::uint64_t seed = 0; seed < 96; ++seed) {
    Rng rng(seed);
    disk.files().clear();
    open(1_MiB);
    ASSERT_TRUE(append(1, 10));
    for (std::uint64_t n = 100; n < 140; ++n) ASSERT_TRUE(append(n, n));
    ASSERT_TRUE(log->commit().has_value());
    // In another segment; its sync fails, or its removal after that, or what comes next.
    ASSERT_TRUE(append(1, 11));
    disk.fail(DiskFault::kError, 1 + seed % 6, 1 + seed / 6 % 4);
    const bool erased = log->erase(tier_key(100)).has_value();
    const bool owns_up = log->stats().lost > 0;  // its newest value went with its segment
    disk.fail(DiskFault::kCrash, 1);
    log.reset();
    disk.reboot(rng);
    open(1_MiB);
    EXPECT_TRUE(owns_up || holds(1, 10) || holds(1, 11)) << "with seed " << seed;
    if (erased) EXPECT_EQ(log->read(tier_key(100), memory).value(), std::nullopt);
    log.reset();
  }
}

// The entry was evicted, so there was nothing to erase, but its file's removal was not yet durable.
TEST_F(LogOnFaultyDisk, ErasedEntriesDoNotReturnWithARemovedFile) {
  std::uint64_t removals = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    disk.files().clear();
    open(140_KiB);  // two segments
    for (std::uint64_t n = 0; n < 14; ++n) ASSERT_TRUE(append(n, n));
    ASSERT_TRUE(log->commit().has_value());
    // Creating the third segment removes the first, and one operation of that fails. If creation
    // itself fails, nothing syncs the folder.
    disk.fail(DiskFault::kError, seed);
    for (std::uint64_t n = 14; n < 40 && log->contains(tier_key(0)); ++n) {
      static_cast<void>(append(n, n));
    }
    disk.fail(DiskFault::kNone, 1);
    if (log->contains(tier_key(0))) continue;
    ++removals;
    ASSERT_TRUE(log->erase(tier_key(0)).has_value());
    disk.fail(DiskFault::kCrash, 1);
    log.reset();
    disk.reboot(rng);
    open(140_KiB);
    ASSERT_FALSE(holds(0, 0)) << "after a failure at " << seed;
  }
  EXPECT_GT(removals, 10U);
}

}  // namespace
}  // namespace afterimage
