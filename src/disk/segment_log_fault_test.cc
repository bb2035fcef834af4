// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// The log on a disk that fails: at every operation in turn, in every way.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "afterimage/disk/disk_tier.h"
#include "afterimage/testing/fake_block_folder.h"
#include "afterimage/testing/seeds.h"
#include "afterimage/testing/tier_entries.h"

namespace afterimage {
namespace {

using testing::DiskFault;
using testing::FakeBlockFolder;
using testing::FakeDisk;
using testing::for_each_seed;
using testing::tier_bytes;
using testing::tier_key;

SegmentLogOptions small(Bytes capacity) {
  return {.capacity = capacity,
          .segment_bytes = 64_KiB,
          .batch_bytes = 8_KiB,
          .batches = 3,
          .commit_bytes = 32_KiB};
}

/// What may be found under a key, and whether something must be.
struct Expected {
  std::set<std::uint64_t> allowed;      // seeds of values
  std::optional<std::uint64_t> newest;  // taken in and, as far as is known, on its way
  bool certain = false;                 // something must be found
};

/// Runs random operations on a log over a FakeDisk and keeps an obvious model of them.
class Story {
 public:
  Story(Rng rng, Bytes capacity) : rng_(rng), capacity_(capacity) {}

  /// False: the disk would not let it.
  bool open() {
    auto opened =
        SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), small(capacity_), memory_);
    if (!opened) return false;
    log = *std::move(opened);
    lost_ = 0;
    return true;
  }
  void step() {
    const std::uint64_t n = rng_.below(10);
    switch (rng_.below(8)) {
      case 0:
        return erase(n);
      case 1:
        return flush();
      case 2:
        return look(n);
      default:
        return put(n);
    }
  }
  void run(int steps) {
    for (int i = 0; i < steps && !disk.crashed(); ++i) step();
  }
  void put(std::uint64_t n) {
    const std::uint64_t seed = ++seeds_;
    model_[n].allowed.insert(seed);
    const auto done = log->append(tier_key(n), {}, tier_bytes(seed, size_of_value(seed)));
    notice_losses();
    if (done) model_[n].newest = seed;
  }
  void erase(std::uint64_t n) {
    const auto done = log->erase(tier_key(n));
    notice_losses();
    if (done) {
      model_[n] = {};
    } else {
      model_[n].certain = false;
    }
  }
  void flush() {
    const auto done = log->commit();
    notice_losses();
    if (!done) return;
    for (auto& [n, expected] : model_) {
      if (expected.newest) {
        expected = {.allowed = {*expected.newest}, .newest = expected.newest, .certain = true};
      }
    }
  }
  void look(std::uint64_t n) {
    const auto found = log->read(tier_key(n), room_);
    if (!found || !*found) return;
    for (const std::uint64_t seed : model_[n].allowed) {
      if (std::ranges::equal((*found)->bytes, tier_bytes(seed, size_of_value(seed)))) return;
    }
    ADD_FAILURE() << "key " << n << " gave bytes that it must not give";
  }
  /// What a reopened log holds is in the model, and what is certain in the model is in the log.
  void compare(bool nothing_lost) {
    log->check_invariants();
    for (auto& [n, expected] : model_) {
      const auto found = log->read(tier_key(n), room_).value();
      if (!found) {
        EXPECT_FALSE(nothing_lost && expected.certain) << "key " << n << " was committed";
        expected = {};
        continue;
      }
      std::optional<std::uint64_t> seen;
      for (const std::uint64_t seed : expected.allowed) {
        if (std::ranges::equal(found->bytes, tier_bytes(seed, size_of_value(seed)))) seen = seed;
      }
      ASSERT_TRUE(seen.has_value()) << "key " << n << " gave bytes that it must not give";
      expected = {.allowed = {*seen}, .newest = seen, .certain = true};
    }
  }
  /// Ends the process without a word, and the power too.
  void crash() {
    if (!disk.crashed()) disk.fail(DiskFault::kCrash, 1);
    log.reset();
    disk.reboot(rng_);
    for (auto& [n, expected] : model_) expected.newest.reset();
  }
  void reopen(bool nothing_lost) {
    ASSERT_TRUE(open());
    compare(nothing_lost);
  }

  FakeDisk disk;
  std::unique_ptr<SegmentLog> log;

 private:
  /// What was on its way when a write failed is gone: the value before it may be found again.
  void notice_losses() {
    const std::uint64_t lost = log->stats().lost;
    if (lost == std::exchange(lost_, lost)) return;
    for (auto& [n, expected] : model_) expected.newest.reset();
  }
  static std::size_t size_of_value(std::uint64_t seed) {
    static constexpr std::array<std::size_t, 7> kSizes = {0,     100,    3'968, 3'969,
                                                          9'000, 20'000, 30'000};
    return kSizes[seed % kSizes.size()];
  }

  Rng rng_;
  Bytes capacity_;
  MemoryBudget memory_{4_MiB};
  MemoryBudget room_{4_MiB};
  std::map<std::uint64_t, Expected> model_;
  std::uint64_t seeds_ = 0;
  std::uint64_t lost_ = 0;
};

std::uint64_t operations_of(const Rng& rng, Bytes capacity, int steps) {
  Story story(rng, capacity);
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
      Story story(rng, 4_MiB);
      story.disk.fail(DiskFault::kCrash, n);
      if (story.open()) story.run(kSteps);
      story.crash();
      ++crashes;
      // And once more while it recovers, and once in what follows.
      story.disk.fail(DiskFault::kCrash, 1 + n % 17);
      if (story.open()) story.run(5);
      story.crash();
      story.reopen(true);
      if (::testing::Test::HasFailure()) FAIL() << "crash at operation " << n << " of " << total;
      story.run(10);
      story.crash();
      story.reopen(true);
      if (::testing::Test::HasFailure()) FAIL() << "second life after operation " << n;
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
      Story story(rng, 200_KiB);
      story.disk.fail(DiskFault::kCrash, n);
      if (story.open()) story.run(kSteps);
      EXPECT_LE(story.disk.bytes(), (200_KiB).value()) << "the cap holds on disk";
      story.crash();
      story.reopen(false);
      EXPECT_LE(story.disk.bytes(), (200_KiB).value());
      if (::testing::Test::HasFailure()) FAIL() << "crash at operation " << n;
    }
  });
}

TEST(SegmentLogFaults, OperationsThatFailInEveryWayCostHitsAndNeverTruth) {
  std::map<DiskFault, std::uint64_t> faults;
  for_each_seed(1, [&faults](Rng& rng) {
    constexpr int kSteps = 60;
    const std::uint64_t total = operations_of(rng, 1_MiB, kSteps);
    for (const DiskFault fault : {DiskFault::kError, DiskFault::kFull, DiskFault::kHang,
                                  DiskFault::kShortRead, DiskFault::kMisdirected}) {
      for (std::uint64_t n = 1; n <= total; n += 1 + rng.below(9)) {
        Story story(rng, 1_MiB);
        story.disk.fail(fault, n, 1 + n % 3);
        ++faults[fault];
        if (!story.open()) continue;
        story.run(kSteps);
        story.log->check_invariants();
        story.log.reset();
        story.disk.fail(DiskFault::kNone, 1);
        story.reopen(false);
        if (::testing::Test::HasFailure()) FAIL() << "operation " << n << " of " << total;
      }
    }
  });
  for (const auto& [fault, count] : faults) {
    std::printf("fault %d: %llu times, 0 wrong bytes\n", static_cast<int>(fault),
                static_cast<unsigned long long>(count));
  }
}

class FaultyTier : public ::testing::Test {
 protected:
  std::unique_ptr<DiskTier> open() {
    auto tier = DiskTier::open(std::make_unique<FakeBlockFolder>(disk),
                               {.log = small(1_MiB), .rest = std::chrono::seconds(5), .strikes = 3},
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
  EXPECT_FALSE(tier->stats().trouble.empty());
  const std::uint64_t before = disk.operations();
  EXPECT_EQ(tier->put(tier_key(3), {}, tier_bytes(3, 10)).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(disk.operations(), before) << "while it rests the disk is left alone";
  disk.fail(DiskFault::kNone, 1);
  EXPECT_TRUE(holds(*tier, 1)) << "reads go on";
  clock.advance(std::chrono::seconds(5));
  put(*tier, 4);
  ASSERT_TRUE(tier->flush().has_value());
  EXPECT_TRUE(holds(*tier, 4));
  EXPECT_EQ(tier->stats().trouble, "");
}

TEST_F(FaultyTier, ThreeFailedReadsGiveTheDiskARest) {
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
  EXPECT_TRUE(holds(*tier, 1)) << "the entry was never the problem";
  EXPECT_EQ(tier->stats().trouble, "");
}

TEST_F(FaultyTier, AnEraseThatCannotBeMadeSafeSaysSo) {
  const auto tier = open();
  put(*tier, 1);
  ASSERT_TRUE(tier->flush().has_value());
  disk.fail(DiskFault::kError, 1, 1'000'000);
  EXPECT_FALSE(tier->erase(tier_key(1)).has_value());
  EXPECT_FALSE(holds(*tier, 1)) << "but here it is gone";
  disk.fail(DiskFault::kNone, 1);
  ASSERT_TRUE(tier->erase(tier_key(1)).has_value()) << "and asked again it is gone for good";
  Rng rng(1);
  disk.fail(DiskFault::kCrash, 1);
}

TEST(SegmentLogRecovery, ABigSegmentIsFoundByItsFooterAndAnUnsealedOneByReading) {
  FakeDisk disk;
  MemoryBudget memory(8_MiB);
  const auto open = [&] {
    return SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), small(4_MiB), memory).value();
  };
  {
    const auto log = open();
    for (std::uint64_t n = 0; n < 100; ++n) {
      ASSERT_TRUE(log->append(tier_key(n), {}, tier_bytes(n, 10'000)).has_value());
    }
  }
  {
    const auto log = open();
    EXPECT_EQ(log->recovery().scanned, 0U) << "closed in order";
    EXPECT_EQ(log->recovery().entries, EntryCount(100));
    ASSERT_TRUE(log->append(tier_key(200), {}, tier_bytes(200, 10'000)).has_value());
    ASSERT_TRUE(log->commit().has_value());
    ASSERT_TRUE(log->append(tier_key(201), {}, tier_bytes(201, 10'000)).has_value());
    disk.fail(DiskFault::kCrash, 1);
  }
  Rng rng(5);
  disk.reboot(rng);
  const auto log = open();
  EXPECT_EQ(log->recovery().scanned, 1U);
  EXPECT_TRUE(log->contains(tier_key(200)));
  EXPECT_GE(log->recovery().entries, EntryCount(101));
}

TEST(SegmentLogRecovery, ACapSmallerThanWhatIsThereIsObeyed) {
  FakeDisk disk;
  MemoryBudget memory(8_MiB);
  const auto open = [&](Bytes capacity) {
    return SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), small(capacity), memory);
  };
  {
    const auto log = open(4_MiB).value();
    for (std::uint64_t n = 0; n < 100; ++n) {
      ASSERT_TRUE(log->append(tier_key(n), {}, tier_bytes(n, 10'000)).has_value());
    }
  }
  ASSERT_GT(disk.bytes(), (1_MiB).value());
  const auto log = open(512_KiB).value();
  EXPECT_LE(disk.bytes(), (512_KiB).value());
  EXPECT_GT(log->recovery().dropped_segments, 5U);
  EXPECT_TRUE(log->contains(tier_key(99))) << "the newest stay";
  EXPECT_FALSE(log->contains(tier_key(0)));
  log->check_invariants();
  EXPECT_EQ(open(10_KiB).error().code, ErrorCode::kInvalidArgument);
}

TEST(SegmentLogRecovery, SegmentsOfAnotherStoreAreLeftAloneAndNotServed) {
  FakeDisk ours;
  FakeDisk theirs;
  MemoryBudget memory(8_MiB);
  const auto fill = [&](FakeDisk& disk, std::uint64_t first) {
    const auto log =
        SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), small(1_MiB), memory).value();
    for (std::uint64_t n = first; n < first + 3; ++n) {
      ASSERT_TRUE(log->append(tier_key(n), {}, tier_bytes(n, 10'000)).has_value());
    }
  };
  fill(ours, 0);
  fill(theirs, 100);
  ours.files()["segment-0000000000000009.afi"] = theirs.files().at("segment-0000000000000001.afi");
  ours.files()["segment-000000000000000a.afi"] = ours.files().at("segment-0000000000000001.afi");
  ours.files()["segment-000000000000000b.afi"] = std::make_shared<FakeDisk::File>();
  ours.files()["holiday.jpg"] = std::make_shared<FakeDisk::File>();
  const auto log =
      SegmentLog::open(std::make_unique<FakeBlockFolder>(ours), small(1_MiB), memory).value();
  EXPECT_EQ(log->recovery().foreign_files, 3U);
  EXPECT_EQ(log->recovery().entries, EntryCount(3));
  EXPECT_FALSE(log->contains(tier_key(100)));
  EXPECT_EQ(ours.files().size(), 6U) << "nothing that is not ours was removed";
  log->check_invariants();
}

}  // namespace
}  // namespace afterimage
