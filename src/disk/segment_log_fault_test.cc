// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// The log on a disk that fails: at every operation in turn, in every way.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "afterimage/disk/segment_log.h"
#include "afterimage/disk/testing/small_log.h"
#include "afterimage/testing/fake_block_folder.h"
#include "afterimage/testing/seeds.h"
#include "afterimage/testing/tier_entries.h"

namespace afterimage {
namespace {

using testing::DiskFault;
using testing::FakeBlockFolder;
using testing::FakeDisk;
using testing::for_each_seed;
using testing::small_log;
using testing::tier_bytes;
using testing::tier_key;

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
        SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), small_log(capacity_), memory_);
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

 private:
  MemoryBudget memory_{4_MiB};  // outlive the log
  MemoryBudget room_{4_MiB};

 public:
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

// The system may have thrown away what it could not make safe, and a second sync would not tell.
TEST_F(LogOnFaultyDisk, ASegmentWhoseSyncFailedIsRemovedAndItsEntriesAreLost) {
  open(1_MiB);
  ASSERT_TRUE(append(1, 1));
  ASSERT_TRUE(log->commit().has_value());
  ASSERT_TRUE(append(2, 2));
  disk.fail(DiskFault::kError, 1);  // its write is under way; the next is the sync
  EXPECT_FALSE(log->commit().has_value());
  EXPECT_FALSE(log->contains(tier_key(1)) || log->contains(tier_key(2)));
  EXPECT_EQ(log->stats().lost, 2U);
  EXPECT_EQ(disk.files().size(), 1U) << "only the store's name is left";
  log->check_invariants();
  ASSERT_TRUE(append(3, 3));
  EXPECT_TRUE(log->commit().has_value());
  EXPECT_TRUE(holds(3, 3)) << "in a segment of its own";
}

// Otherwise the replaced record would be the newest again once the segment of its successor left.
TEST_F(LogOnFaultyDisk, WhatWasReplacedIsOverwrittenBeforeItsSuccessorIsEvicted) {
  constexpr std::uint64_t kOld = 100;
  constexpr std::uint64_t kNew = 200;
  open(140_KiB);  // two segments
  ASSERT_TRUE(append(0, kOld));
  for (std::uint64_t n = 1; n < 7; ++n) ASSERT_TRUE(append(n, n));
  ASSERT_TRUE(log->commit().has_value());
  ASSERT_TRUE(append(0, kNew));
  for (std::uint64_t n = 7; n < 9; ++n) ASSERT_TRUE(append(n, n));
  ASSERT_TRUE(holds(0, kNew)) << "written, not yet committed";
  // A write fails, so that the second segment is closed and the next entry begins a third.
  disk.fail(DiskFault::kError, 1);
  for (std::uint64_t n = 9; append(n, n);) ASSERT_LT(++n, 13U);
  ASSERT_TRUE(holds(1, 1)) << "the first was read last: the second has to leave";
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

}  // namespace
}  // namespace afterimage
