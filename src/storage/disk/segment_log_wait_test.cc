// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Log and tier on a slow, full or missing disk: which operation waits for what, and how long.
#include <gtest/gtest.h>

#include <thread>

#include "afterimage/disk_tier.h"
#include "storage/disk/segment_format.h"
#include "storage/disk/segment_log.h"
#include "storage/disk/testing/small_log.h"
#include "testing/fake_block_folder.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using testing::DiskFault;
using testing::FakeBlockFolder;
using testing::FakeDisk;
using testing::hurried_log;
using testing::small_log;
using testing::tier_bytes;
using testing::tier_key;

class FaultyTier : public ::testing::Test {
 protected:
  std::unique_ptr<DiskTier> open(const SegmentLogOptions& log = small_log(1_MiB),
                                 bool own_thread = false) {
    auto tier = DiskTier::open(std::make_unique<FakeBlockFolder>(disk),
                               {.log = log,
                                .open_duration = std::chrono::seconds(5),
                                .failure_threshold = 3,
                                .own_thread = own_thread},
                               memory, clock);
    EXPECT_TRUE(tier.has_value()) << to_string(tier.error());
    return *std::move(tier);
  }
  void put(DiskTier& tier, std::uint64_t n) {
    ASSERT_TRUE(tier.put(tier_key(n), {}, tier_bytes(n, 5'000)).has_value());
  }
  bool holds(DiskTier& tier, std::uint64_t n) {
    return tier.get(tier_key(n), memory).value().has_value();
  }

  FakeDisk disk;
  MemoryBudget memory{4_MiB};
  ManualClock clock;
};

TEST_F(FaultyTier, AFullDiskRefusesPutsServesGetsAndRecovers) {
  const auto tier = open();
  put(*tier, 1);
  ASSERT_TRUE(tier->flush().has_value());
  disk.fail(DiskFault::kFull, 1, 1'000);
  const auto lost = tier->put(tier_key(2), {}, tier_bytes(2, 5'000));
  const auto refused = tier->flush();
  ASSERT_FALSE(lost && refused);
  EXPECT_FALSE(tier->stats().degraded_reason.empty());
  const std::uint64_t before = disk.operations();
  EXPECT_EQ(tier->put(tier_key(3), {}, tier_bytes(3, 10)).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(disk.operations(), before) << "the disk is not used while the breaker is open";
  disk.fail(DiskFault::kNone, 1);
  EXPECT_TRUE(holds(*tier, 1)) << "reads continue";
  clock.advance(std::chrono::seconds(5));
  put(*tier, 4);
  ASSERT_TRUE(tier->flush().has_value());
  EXPECT_TRUE(holds(*tier, 4));
  EXPECT_EQ(tier->stats().degraded_reason, "");
}

TEST_F(FaultyTier, ThreeFailedReadsOpenTheBreaker) {
  const auto tier = open();
  put(*tier, 1);
  ASSERT_TRUE(tier->flush().has_value());
  disk.fail(DiskFault::kHang, 1, 1'000);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(holds(*tier, 1));
  const std::uint64_t before = disk.operations();
  EXPECT_FALSE(holds(*tier, 1));
  EXPECT_EQ(disk.operations(), before);
  EXPECT_EQ(tier->stats().failures, 3U);
  disk.fail(DiskFault::kNone, 1);
  clock.advance(std::chrono::seconds(5));
  EXPECT_TRUE(holds(*tier, 1)) << "the entry itself was never damaged";
  EXPECT_EQ(tier->stats().degraded_reason, "");
}

// Most gets of a cache miss: if a miss counted as the probe, the breaker would never close.
TEST_F(FaultyTier, MissesDoNotProbeAndDamagedEntriesCloseTheBreaker) {
  const auto tier = open();
  for (std::uint64_t n = 1; n <= 3; ++n) put(*tier, n);
  ASSERT_TRUE(tier->flush().has_value());
  disk.fail(DiskFault::kHang, 1, 1'000);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(holds(*tier, 1));
  disk.fail(DiskFault::kNone, 1);
  clock.advance(std::chrono::seconds(5));
  EXPECT_FALSE(holds(*tier, 99)) << "was never put";
  EXPECT_TRUE(holds(*tier, 1));
  disk.fail(DiskFault::kHang, 1, 1'000);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(holds(*tier, 1));
  disk.fail(DiskFault::kNone, 1);
  clock.advance(std::chrono::seconds(5));
  for (auto& [name, file] : disk.files()) {
    if (name.starts_with("segment")) file->content[4096 + 4096] ^= std::byte{1};
  }
  EXPECT_FALSE(holds(*tier, 1)) << "damaged";
  EXPECT_TRUE(holds(*tier, 2)) << "the disk answered";
}

TEST_F(FaultyTier, ASlowDiskRefusesPutsWithoutOpeningTheBreaker) {
  const auto tier = open(hurried_log(1_MiB));
  put(*tier, 0);
  ASSERT_TRUE(tier->flush().has_value());
  disk.stand_still();
  std::uint64_t n = 1;
  while (tier->put(tier_key(n), {}, tier_bytes(n, 5'000)).has_value()) ++n;
  ASSERT_LT(n, 10U) << "three batches of 8 KiB";
  const auto refused = tier->put(tier_key(n), {}, tier_bytes(n, 5'000));
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("slower than the puts"), std::string::npos);
  EXPECT_LE(disk.longest_timeout(), hurried_log(1_MiB).append_timeout);
  EXPECT_EQ(tier->stats().refused, 2U);
  EXPECT_EQ(tier->stats().failures, 0U) << "slow is not broken";
  EXPECT_FALSE(tier->stats().degraded_reason.empty());
  EXPECT_TRUE(holds(*tier, 0)) << "reads continue";
  disk.go_on();
  put(*tier, n);
  EXPECT_EQ(tier->stats().degraded_reason, "");
  ASSERT_TRUE(tier->flush().has_value());
  for (std::uint64_t each = 0; each <= n; ++each) EXPECT_TRUE(holds(*tier, each)) << each;
}

TEST_F(FaultyTier, WorkThatAPutWouldWaitForRunsOnAnotherThread) {
  const auto tier = open(hurried_log(1_MiB), true);
  put(*tier, 0);
  // A replacement must be durable before its segment is sealed.
  bool refused = false;
  for (int i = 0; i < 40 && !refused; ++i) {
    refused = !tier->put(tier_key(0), {}, tier_bytes(0, 5'000)).has_value();
  }
  ASSERT_TRUE(refused);
  for (int i = 0; i < 10'000 && refused; ++i) {  // as long as it takes the other thread
    refused = !tier->put(tier_key(1), {}, tier_bytes(1, 5'000)).has_value();
    if (refused) std::this_thread::yield();
  }
  EXPECT_FALSE(refused);
}

/// Ends the process without its last writes; completed ones stay on the disk.
void kill(std::unique_ptr<DiskTier>& tier, FakeDisk& disk) {
  disk.fail(DiskFault::kError, 1, 1'000'000);  // keeps the destructor from writing
  tier.reset();
  disk.restart();
}

// 200 answers, a minute of rest, kill -9: none was found.
TEST_F(FaultyTier, APartialBatchIsWrittenAfterTheFlushInterval) {
  auto tier = open();
  put(*tier, 1);
  ASSERT_TRUE(tier->is_pending(tier_key(1))) << "less than a batch";
  tier->catch_up();  // as the tier's thread does after every flush_interval
  EXPECT_FALSE(tier->is_pending(tier_key(1)));
  ASSERT_TRUE(tier->put(tier_key(2), {}, tier_bytes(2, 100)).has_value());
  kill(tier, disk);
  tier = open();
  EXPECT_TRUE(holds(*tier, 1));
  EXPECT_FALSE(holds(*tier, 2)) << "was put since";
}

TEST_F(FaultyTier, AWrittenBatchIsSyncedWithoutAFlush) {
  auto tier = open();
  put(*tier, 1);
  tier->catch_up();
  EXPECT_EQ(tier->log().stats().lost, 0U);
  tier->catch_up();
  EXPECT_EQ(tier->log().stats().uncommitted, 0_B);
  disk.fail(DiskFault::kError, 1, 1'000'000);
  tier.reset();
  Rng rng(1);
  disk.reboot(rng);
  EXPECT_TRUE(holds(*open(), 1)) << "survives a power failure";
}

// Memory that evicts an entry before its batch is full must find it here, or it is computed again.
TEST_F(FaultyTier, AnEntryIsFoundBeforeItsBatchIsFull) {
  const auto tier = open();
  put(*tier, 1);
  ASSERT_TRUE(tier->is_pending(tier_key(1)));
  EXPECT_TRUE(tier->may_contain(tier_key(1)));
  EXPECT_GE(tier->metadata(tier_key(1)).value().bytes, 5'000_B);
  EXPECT_TRUE(holds(*tier, 1));
  EXPECT_EQ(tier->stats().misses, 0U);
}

TEST_F(FaultyTier, AGetFindsTheNewerValueBeforeItsBatchIsFull) {
  const auto tier = open();
  put(*tier, 1);
  ASSERT_TRUE(tier->flush().has_value());
  ASSERT_TRUE(tier->put(tier_key(1), {}, tier_bytes(2, 6'000)).has_value());
  const auto found = tier->get(tier_key(1), memory).value();
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(std::ranges::equal(found->bytes, tier_bytes(2, 6'000)));
}

TEST_F(FaultyTier, ARestWithNothingToWriteUsesNoDiskAndDoesNotCloseTheBreaker) {
  const auto tier = open();
  put(*tier, 1);
  tier->catch_up();
  tier->catch_up();
  const std::uint64_t before = disk.operations();
  tier->catch_up();
  EXPECT_EQ(disk.operations(), before);
  ASSERT_TRUE(tier->put(tier_key(2), {}, tier_bytes(2, 100)).has_value());
  disk.fail(DiskFault::kError, 1, 1'000);
  tier->catch_up();
  EXPECT_NE(tier->stats().degraded_reason, "");
  clock.advance(std::chrono::seconds(5));
  tier->catch_up();
  EXPECT_NE(tier->stats().degraded_reason, "") << "nothing was tried";
  disk.fail(DiskFault::kNone, 1);
  put(*tier, 3);
  EXPECT_EQ(tier->stats().degraded_reason, "");
}

TEST_F(FaultyTier, AFlushIntervalOfZeroIsRefused) {
  const auto tier = DiskTier::open(std::make_unique<FakeBlockFolder>(disk),
                                   {.flush_interval = Duration(0)}, memory, clock);
  EXPECT_EQ(tier.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(FaultyTier, AnEraseThatIsNotDurableIsAnError) {
  auto tier = open();
  put(*tier, 1);
  ASSERT_TRUE(tier->flush().has_value());
  disk.fail(DiskFault::kError, 1, 1'000'000);
  EXPECT_FALSE(tier->erase(tier_key(1)).has_value());
  EXPECT_FALSE(holds(*tier, 1)) << "but in this process it is gone";
  disk.fail(DiskFault::kNone, 1);
  ASSERT_TRUE(tier->erase(tier_key(1)).has_value()) << "a second erase is durable";
  disk.fail(DiskFault::kError, 1, 1'000'000);  // prevents clean-up by the destructor
  tier.reset();
  Rng rng(1);
  disk.reboot(rng);
  EXPECT_FALSE(holds(*open(), 1)) << "even after a crash of the machine";
}

class HurriedLog : public ::testing::Test {
 protected:
  void open(const SegmentLogOptions& options = hurried_log(1_MiB)) {
    log = SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), options, memory).value();
  }
  Result<bool> append(std::uint64_t n, std::size_t size = 5'000) {
    return log->append(tier_key(n), {}, tier_bytes(n, size));
  }
  bool holds(std::uint64_t n, std::size_t size = 5'000) {
    const auto found = log->read(tier_key(n), room);
    return found && *found && std::ranges::equal((*found)->bytes, tier_bytes(n, size));
  }

  FakeDisk disk;
  MemoryBudget memory{1_MiB};
  MemoryBudget room{1_MiB};
  std::unique_ptr<SegmentLog> log;
};

TEST_F(HurriedLog, AnAppendToAHangingDiskIsRefusedInTimeAndNothingIsLost) {
  open();
  disk.stand_still();
  std::uint64_t taken = 0;
  while (append(taken).value()) ++taken;
  EXPECT_GT(taken, 1U);
  EXPECT_FALSE(append(taken).value());
  EXPECT_LE(disk.longest_timeout(), hurried_log(1_MiB).append_timeout);
  EXPECT_LE(memory.used(), 24_KiB) << "three batches";
  log->check_invariants();
  disk.go_on();
  EXPECT_TRUE(append(taken).value());
  ASSERT_TRUE(log->commit().has_value());
  for (std::uint64_t n = 0; n <= taken; ++n) EXPECT_TRUE(holds(n)) << n;
  EXPECT_EQ(log->stats().lost, 0U);
}

TEST_F(HurriedLog, ACommitWaitsAndCountsLostEntries) {
  open();
  disk.stand_still();
  ASSERT_TRUE(append(0).value());
  ASSERT_TRUE(append(1).value());
  EXPECT_TRUE(log->is_pending(tier_key(0)) && log->is_pending(tier_key(1)));
  EXPECT_FALSE(log->contains(tier_key(0)));
  EXPECT_EQ(log->commit().error().code, ErrorCode::kCancelled);
  EXPECT_EQ(disk.longest_timeout(), hurried_log(1_MiB).write_timeout);
  EXPECT_EQ(log->stats().lost, 2U);
  EXPECT_FALSE(log->is_pending(tier_key(0)) || log->is_pending(tier_key(1)))
      << "nor are they pending";
  disk.go_on();
}

TEST_F(HurriedLog, AHangingCommitBlocksNobody) {
  open();
  ASSERT_TRUE(append(0).value());
  ASSERT_TRUE(append(3).value());
  ASSERT_TRUE(log->commit().has_value());
  disk.files().begin()->second->content[kDiskBlock + 2 * kDiskBlock + 3'000] ^= std::byte{1};
  ASSERT_TRUE(append(1).value());
  disk.stand_still(true);
  std::thread committing([this] { EXPECT_TRUE(log->commit().has_value()); });
  disk.await_waiter();
  // Each of these would hang if it waited for the other thread.
  EXPECT_FALSE(append(2).value());
  EXPECT_TRUE(holds(0));
  EXPECT_FALSE(holds(3)) << "a damaged entry is a miss, and a later read marks it";
  EXPECT_TRUE(log->contains(tier_key(3)));
  EXPECT_EQ(log->stats().damaged, 0U);
  EXPECT_GT(log->stats().uncommitted, 0_B);
  disk.go_on();
  committing.join();
  EXPECT_EQ(log->stats().uncommitted, 0_B);
  EXPECT_FALSE(holds(3));
  EXPECT_FALSE(log->contains(tier_key(3)));
  EXPECT_EQ(log->stats().damaged, 1U);
  EXPECT_TRUE(append(2).value());
}

TEST_F(HurriedLog, AppendsGoOnWhileAPartialBatchIsWritten) {
  open();
  ASSERT_TRUE(append(0).value());
  disk.stand_still(true);
  std::thread writing([this] { EXPECT_TRUE(log->write_out().value()); });
  disk.await_waiter();
  EXPECT_TRUE(append(1, 100).value());
  EXPECT_TRUE(log->is_pending(tier_key(0)) && log->is_pending(tier_key(1)));
  disk.go_on();
  writing.join();
  EXPECT_TRUE(log->contains(tier_key(0)));
  EXPECT_TRUE(log->is_pending(tier_key(1))) << "was appended since";
  log->check_invariants();
}

// A slow write is no failed read: it would open the breaker, and everything would miss.
TEST_F(HurriedLog, AnEntryIsFoundWhileItsWriteHangs) {
  open();
  disk.stand_still();
  ASSERT_TRUE(append(0).value());
  ASSERT_TRUE(append(1).value());
  EXPECT_TRUE(log->is_pending(tier_key(0)) && log->is_pending(tier_key(1)));
  EXPECT_TRUE(holds(0)) << "in one batch in flight and in the next";
  EXPECT_TRUE(holds(1));
  EXPECT_EQ(disk.longest_timeout(), Duration(0)) << "nothing was waited for";
  disk.go_on();
  EXPECT_TRUE(holds(0));
  EXPECT_EQ(log->stats().lost, 0U);
}

TEST_F(HurriedLog, APendingEntryWhoseFirstBatchIsWrittenIsWrittenFirst) {
  open();
  ASSERT_TRUE(append(0, 22'000).value());  // four batches; the last one is not full
  ASSERT_TRUE(append(1, 100).value());     // completes the first ones
  EXPECT_TRUE(log->is_pending(tier_key(0)));
  EXPECT_TRUE(holds(0, 22'000));
}

TEST_F(HurriedLog, AWriteThatHangsLongerThanItsTimeoutIsLostAndCounted) {
  open();
  ASSERT_TRUE(append(0).value());
  disk.stand_still();
  EXPECT_EQ(log->write_out().error().code, ErrorCode::kCancelled);
  EXPECT_EQ(log->stats().lost, 1U);
  EXPECT_FALSE(log->is_pending(tier_key(0)));
  disk.go_on();
}

TEST_F(HurriedLog, AnEntryLargerThanAllBatchesGetsItsOwnMemory) {
  open();
  disk.stand_still();
  ASSERT_TRUE(append(0, 50'000).value());
  EXPECT_GT(memory.used(), 50'000_B);
  EXPECT_FALSE(append(1, 50'000).value()) << "not twice";
  EXPECT_LE(disk.longest_timeout(), hurried_log(1_MiB).append_timeout);
  log->check_invariants();
  disk.go_on();
  ASSERT_TRUE(log->commit().has_value());
  EXPECT_LE(memory.used(), 24_KiB) << "and releases it";
  EXPECT_TRUE(holds(0, 50'000));
  memory.set_capacity(40_KiB);
  EXPECT_FALSE(append(1, 50'000).value()) << "there is no memory for the copy";
  EXPECT_TRUE(append(2).value());
  EXPECT_EQ(log->stats().lost, 0U);
}

TEST_F(HurriedLog, ReplacementsAreMadeDurableByACommitElsewhere) {
  open();
  std::uint64_t appends = 0;
  while (append(appends % 2).value()) ASSERT_LT(++appends, 20U) << "a segment holds seven";
  EXPECT_TRUE(log->wants_commit());
  ASSERT_TRUE(log->commit().has_value());
  EXPECT_FALSE(log->wants_commit());
  EXPECT_TRUE(append(2).value());
  // Without replacements, new segments need no commit.
  ASSERT_TRUE(log->commit().has_value());
  for (std::uint64_t n = 10; n < 60; ++n) EXPECT_TRUE(append(n).value()) << n;
}

TEST_F(HurriedLog, IdleReadBuffersYieldToBatches) {
  open();
  ASSERT_TRUE(append(0, 50'000).value());
  log.reset();
  memory.set_capacity(60_KiB);
  open();
  ASSERT_TRUE(holds(0, 50'000));
  EXPECT_GT(memory.used(), 50'000_B) << "pooled for the next read";
  EXPECT_EQ(room.used(), 0_B);
  for (std::uint64_t n = 1; n < 4; ++n) EXPECT_TRUE(append(n).value()) << n;
  EXPECT_LE(memory.used(), 24_KiB);
}

// Files of another store, or of this one whose id was lost, are left alone and take from the capacity.
// With room for one segment beside them every put was refused, for ever, as soon as it was full.
TEST_F(FaultyTier, WithRoomForOneSegmentPutsGoOn) {
  FakeDisk theirs;
  {
    const auto log =
        SegmentLog::open(std::make_unique<FakeBlockFolder>(theirs), small_log(1_MiB), memory)
            .value();
    ASSERT_TRUE(log->append(tier_key(100), {}, tier_bytes(100, 5'000)).has_value());
    ASSERT_TRUE(log->commit().has_value());
    disk.files()["segment-0000000000000009.afi"] =
        theirs.files().at("segment-0000000000000001.afi");
  }
  const auto tier = open(hurried_log(136_KiB));
  int refused = 0;
  for (std::uint64_t n = 1; n <= 60; ++n) {
    if (tier->put(tier_key(n), {}, tier_bytes(n, 5'000)).has_value()) continue;
    ++refused;
    tier->catch_up();
    ASSERT_TRUE(tier->put(tier_key(n), {}, tier_bytes(n, 5'000)).has_value()) << n;
  }
  EXPECT_GT(refused, 0) << "there was a time to wait for";
  EXPECT_TRUE(holds(*tier, 60));
  EXPECT_EQ(tier->stats().degraded_reason, "");
}

}  // namespace
}  // namespace afterimage
