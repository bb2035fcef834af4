// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// The log on a disk that fails: at every operation in turn, in every way.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "afterimage/disk/disk_tier.h"
#include "afterimage/disk/read_buffers.h"
#include "afterimage/disk/segment_format.h"
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
          .commit_bytes = 32_KiB,
          .append_patience = std::chrono::seconds(10)};
}

/// As it is on a request's thread.
SegmentLogOptions hurried(Bytes capacity) {
  SegmentLogOptions options = small(capacity);
  options.append_patience = std::chrono::milliseconds(10);
  return options;
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

class FaultyTier : public ::testing::Test {
 protected:
  std::unique_ptr<DiskTier> open(const SegmentLogOptions& log = small(1_MiB)) {
    auto tier =
        DiskTier::open(std::make_unique<FakeBlockFolder>(disk),
                       {.log = log, .rest = std::chrono::seconds(5), .strikes = 3}, memory, clock);
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

TEST_F(FaultyTier, ADiskThatIsBehindRefusesPutsAtOnceAndNeedsNoRest) {
  const auto tier = open(hurried(1_MiB));
  put(*tier, 0);
  ASSERT_TRUE(tier->flush().has_value());
  disk.stand_still();
  std::uint64_t n = 1;
  while (tier->put(tier_key(n), {}, tier_bytes(n, 5'000)).has_value()) ++n;
  ASSERT_LT(n, 10U) << "three batches of 8 KiB";
  const auto refused = tier->put(tier_key(n), {}, tier_bytes(n, 5'000));
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("takes in less than is put"), std::string::npos);
  EXPECT_LE(disk.longest_patience(), hurried(1_MiB).append_patience);
  EXPECT_EQ(tier->stats().refused, 2U);
  EXPECT_EQ(tier->stats().failures, 0U) << "slow is not broken";
  EXPECT_FALSE(tier->stats().trouble.empty());
  EXPECT_TRUE(holds(*tier, 0)) << "reads go on";
  disk.go_on();
  put(*tier, n);
  EXPECT_EQ(tier->stats().trouble, "");
  ASSERT_TRUE(tier->flush().has_value());
  for (std::uint64_t each = 0; each <= n; ++each) EXPECT_TRUE(holds(*tier, each)) << each;
}

TEST_F(FaultyTier, WhatAPutWouldWaitForIsDoneOnAnotherThread) {
  const auto tier = open(hurried(1_MiB));
  put(*tier, 0);
  // What replaces another must be safe before its segment is sealed.
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

class HurriedLog : public ::testing::Test {
 protected:
  void open(const SegmentLogOptions& options = hurried(1_MiB)) {
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

TEST_F(HurriedLog, AnAppendToADiskThatHangsIsRefusedWithinItsPatienceAndNothingIsLost) {
  open();
  disk.stand_still();
  std::uint64_t taken = 0;
  while (append(taken).value()) ++taken;
  EXPECT_GT(taken, 1U);
  EXPECT_FALSE(append(taken).value());
  EXPECT_LE(disk.longest_patience(), hurried(1_MiB).append_patience);
  EXPECT_LE(memory.used(), 24_KiB) << "three batches";
  log->check_invariants();
  disk.go_on();
  EXPECT_TRUE(append(taken).value());
  ASSERT_TRUE(log->commit().has_value());
  for (std::uint64_t n = 0; n <= taken; ++n) EXPECT_TRUE(holds(n)) << n;
  EXPECT_EQ(log->stats().lost, 0U);
}

TEST_F(HurriedLog, ACommitWaitsAndThenCountsWhatIsLost) {
  open();
  disk.stand_still();
  ASSERT_TRUE(append(0).value());
  ASSERT_TRUE(append(1).value());
  EXPECT_EQ(log->commit().error().code, ErrorCode::kCancelled);
  EXPECT_EQ(disk.longest_patience(), hurried(1_MiB).write_patience);
  EXPECT_EQ(log->stats().lost, 2U);
  disk.go_on();
}

TEST_F(HurriedLog, NobodyWaitsForACommitThatHangs) {
  open();
  ASSERT_TRUE(append(0).value());
  ASSERT_TRUE(log->commit().has_value());
  ASSERT_TRUE(append(1).value());
  disk.stand_still(true);
  std::thread committing([this] { EXPECT_TRUE(log->commit().has_value()); });
  disk.await_waiter();
  // Each of these would hang if it waited for the other thread.
  EXPECT_FALSE(append(2).value());
  EXPECT_TRUE(holds(0));
  EXPECT_GT(log->stats().uncommitted, 0_B);
  disk.go_on();
  committing.join();
  EXPECT_EQ(log->stats().uncommitted, 0_B);
  EXPECT_TRUE(append(2).value());
}

TEST_F(HurriedLog, AnEntryLargerThanAllBatchesHasMemoryOfItsOwnAndWaitsForNothing) {
  open();
  disk.stand_still();
  ASSERT_TRUE(append(0, 50'000).value());
  EXPECT_GT(memory.used(), 50'000_B);
  EXPECT_FALSE(append(1, 50'000).value()) << "not twice";
  EXPECT_LE(disk.longest_patience(), hurried(1_MiB).append_patience);
  log->check_invariants();
  disk.go_on();
  ASSERT_TRUE(log->commit().has_value());
  EXPECT_LE(memory.used(), 24_KiB) << "and gives it back";
  EXPECT_TRUE(holds(0, 50'000));
  memory.set_capacity(40_KiB);
  EXPECT_FALSE(append(1, 50'000).value()) << "there is no memory for the copy";
  EXPECT_TRUE(append(2).value());
  EXPECT_EQ(log->stats().lost, 0U);
}

TEST_F(HurriedLog, WhatReplacesAnotherIsMadeSafeByWhoeverHasTime) {
  open();
  std::uint64_t appends = 0;
  while (append(appends % 2).value()) ASSERT_LT(++appends, 20U) << "a segment holds seven";
  EXPECT_TRUE(log->wants_commit());
  ASSERT_TRUE(log->commit().has_value());
  EXPECT_FALSE(log->wants_commit());
  EXPECT_TRUE(append(2).value());
  // Without anything replaced, segments follow on one another by themselves.
  ASSERT_TRUE(log->commit().has_value());
  for (std::uint64_t n = 10; n < 60; ++n) EXPECT_TRUE(append(n).value()) << n;
}

TEST_F(HurriedLog, IdleMemoryOfReadsGivesWayToBatches) {
  open();
  ASSERT_TRUE(append(0, 50'000).value());
  log.reset();
  memory.set_capacity(60_KiB);
  open();
  ASSERT_TRUE(holds(0, 50'000));
  EXPECT_GT(memory.used(), 50'000_B) << "kept for the next read";
  EXPECT_EQ(room.used(), 0_B);
  for (std::uint64_t n = 1; n < 4; ++n) EXPECT_TRUE(append(n).value()) << n;
  EXPECT_LE(memory.used(), 24_KiB);
}

TEST(ReadBuffersTest, KeepWhatComesBackWithinTheirBoundAndBothBudgets) {
  MemoryBudget idle(100_KiB);
  MemoryBudget room(1_MiB);
  const auto buffers = std::make_shared<ReadBuffers>(idle, 64_KiB);
  const std::byte* first = nullptr;
  {
    const auto taken = buffers->take(40'960, room).value();
    first = taken->bytes().data();
    EXPECT_EQ(room.used(), 40_KiB);
    EXPECT_EQ(idle.used(), 0_B) << "who reads pays";
  }
  EXPECT_EQ(room.used(), 0_B);
  EXPECT_EQ(idle.used(), 40_KiB);
  {
    const auto again = buffers->take(36'864, room).value();
    EXPECT_EQ(again->bytes().data(), first) << "the same memory";
    EXPECT_EQ(room.used(), 40_KiB) << "and all of it is paid for";
    const auto other = buffers->take(36'864, room).value();
    EXPECT_NE(other->bytes().data(), first);
    const auto little = buffers->take(4'096, room).value();
    EXPECT_EQ(little->bytes().size(), 4'096U) << "not a large one for a small one";
  }
  EXPECT_LE(buffers->idle(), 64_KiB);
  EXPECT_EQ(idle.used(), buffers->idle());
  {
    const auto huge = buffers->take(80'000, room).value();
  }
  EXPECT_LE(buffers->idle(), 64_KiB) << "larger than the bound: not kept";
  MemoryBudget narrow(37_KiB);
  EXPECT_EQ(buffers->take(36'864, narrow).value()->bytes().size(), 36'864U)
      << "a larger idle one would not have been paid for";
  EXPECT_EQ(buffers->take(40'960, narrow).error().code, ErrorCode::kNoSpace);
  std::shared_ptr<AlignedBytes> outlives = buffers->take(4'096, room).value();
  buffers->close();
  EXPECT_EQ(idle.used(), 0_B);
  outlives.reset();
  EXPECT_EQ(idle.used(), 0_B);
  EXPECT_EQ(room.used(), 0_B);
}

/// One file of one small log, to be written over behind its back.
class ForgedSegment : public ::testing::Test {
 protected:
  static constexpr const char* kName = "segment-0000000000000001.afi";
  static constexpr std::uint64_t kEntries = 6;
  static constexpr std::size_t kSize = 6'000;  // two blocks a record

  ForgedSegment() {
    const auto log = open();
    for (std::uint64_t n = 0; n < kEntries; ++n) {
      EXPECT_TRUE(log->append(tier_key(n), {}, tier_bytes(n, kSize)).has_value());
    }
  }
  std::unique_ptr<SegmentLog> open() {
    return SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), small(1_MiB), memory).value();
  }
  std::vector<std::byte>& content() { return disk.files().at(kName)->content; }
  std::span<std::byte> record(std::uint64_t n) {
    return std::span(content()).subspan((1 + 2 * n) * kDiskBlock, 2 * kDiskBlock);
  }
  /// Writes a header with a good checksum where one of the same size is.
  void forge(std::uint64_t n, const RecordHeader& header) {
    std::ranges::copy(encode_record_header(header), record(n).begin());
  }
  bool holds(SegmentLog& log, std::uint64_t n) {
    const auto found = log.read(tier_key(n), memory).value();
    return found && std::ranges::equal(found->bytes, tier_bytes(n, kSize));
  }

  FakeDisk disk;
  MemoryBudget memory{4_MiB};
};

// A header that is whole and says something else than the index asks for.
TEST_F(ForgedSegment, EveryFieldOfARecordIsComparedAtEveryRead) {
  const RecordHeader good = decode_record_header(record(2)).value();
  const struct {
    const char* name;
    std::function<void(RecordHeader&)> change;
  } kCases[] = {
      {"key, its first bit", [](auto& h) { h.key->bytes.front() ^= std::byte{1}; }},
      {"key, its last bit", [](auto& h) { h.key->bytes.back() ^= std::byte{0x80}; }},
      {"class", [](auto& h) { h.key->entry_class = EntryClass::kAnswer; }},
      {"epoch", [](auto& h) { h.epoch.back() ^= std::byte{1}; }},
      {"place", [](auto& h) { h.offset += kDiskBlock; }},
      {"sequence", [](auto& h) { ++h.sequence; }},
      {"blocks", [](auto& h) { ++h.blocks; }},
      {"length of the value", [](auto& h) { --h.value_bytes; }},
      {"checksum, low", [](auto& h) { h.value_checksum.low ^= 1U; }},
      {"checksum, high", [](auto& h) { h.value_checksum.high ^= 1U; }},
  };
  const std::vector<std::byte> before = content();
  for (const auto& c : kCases) {
    content() = before;
    RecordHeader header = good;
    c.change(header);
    forge(2, header);
    const auto log = open();
    EXPECT_TRUE(log->contains(tier_key(2))) << "the footer says so";
    EXPECT_EQ(log->read(tier_key(2), memory).value(), std::nullopt) << c.name;
    EXPECT_EQ(log->stats().damaged, 1U) << c.name;
    EXPECT_TRUE(holds(*log, 1) && holds(*log, 3)) << c.name;
  }
}

TEST_F(ForgedSegment, ARecordOfAnotherPlaceOrLifeIsNotFoundByReadingThrough) {
  const auto end_without_footer = [this] { content().resize((1 + 2 * kEntries) * kDiskBlock); };
  end_without_footer();
  const std::vector<std::byte> before = content();
  EXPECT_EQ(open()->recovery().entries, EntryCount(kEntries)) << "all is well";
  content() = before;
  RecordHeader other_life = decode_record_header(record(2)).value();
  other_life.epoch.front() ^= std::byte{1};
  forge(2, other_life);
  // A copy that would be found before what it is a copy of.
  std::ranges::copy(std::vector(record(4).begin(), record(4).end()), record(3).begin());
  const auto log = open();
  EXPECT_EQ(log->recovery().scanned, 1U);
  EXPECT_EQ(log->recovery().entries, EntryCount(kEntries - 2));
  for (const std::uint64_t n : {0U, 1U, 4U, 5U}) EXPECT_TRUE(holds(*log, n)) << n;
  EXPECT_FALSE(log->contains(tier_key(2)) || log->contains(tier_key(3)));
}

TEST_F(ForgedSegment, ARecordWhoseValueIsTornIsCountedAndNotTakenOver) {
  content().resize((1 + 2 * kEntries) * kDiskBlock);
  std::ranges::fill(record(kEntries - 1).last(kDiskBlock), std::byte{0});
  const auto log = open();
  EXPECT_EQ(log->recovery().torn_entries, 1U);
  EXPECT_EQ(log->recovery().torn_bytes, Bytes(kSize));
  EXPECT_EQ(log->recovery().entries, EntryCount(kEntries - 1));
  EXPECT_FALSE(log->contains(tier_key(kEntries - 1)));
}

TEST_F(ForgedSegment, AnErasedRecordIsOverwrittenWhereItLies) {
  {
    const auto log = open();
    ASSERT_TRUE(log->erase(tier_key(2)).value());
    const auto header = decode_record_header(record(2));
    ASSERT_TRUE(header.has_value());
    EXPECT_EQ(header->key, std::nullopt);
    EXPECT_EQ(disk.files().at(kName)->durable, content()) << "and synced";
  }
  EXPECT_EQ(open()->read(tier_key(2), memory).value(), std::nullopt);
}

// One bit anywhere in a closed segment, each with a start of the whole log: what is found is right,
// and no more than one entry is lost. AFTERIMAGE_FLIPS says how many.
TEST(SegmentLogFlips, EverySampledBitCostsOneEntryAtMostAndNeverTruth) {
  const char* wanted = std::getenv("AFTERIMAGE_FLIPS");
  const std::uint64_t flips = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 1'024;
  constexpr std::uint64_t kEntries = 8;
  constexpr std::size_t kSize = 60'000;
  FakeDisk disk;
  MemoryBudget memory(16_MiB);
  SegmentLogOptions options = small(4_MiB);
  options.segment_bytes = 512_KiB;
  const auto open = [&] {
    return SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), options, memory).value();
  };
  {
    const auto log = open();
    for (std::uint64_t n = 0; n < kEntries; ++n) {
      ASSERT_TRUE(log->append(tier_key(n), {}, tier_bytes(n, kSize)).has_value());
    }
  }
  ASSERT_EQ(disk.files().size(), 2U) << "one segment and the store's name";
  std::vector<std::byte>& content = disk.files().begin()->second->content;
  const std::vector<std::byte> before = content;
  ASSERT_GT(before.size(), 480'000U);
  Rng rng(3);
  std::uint64_t lost = 0;
  for (std::uint64_t flip = 0; flip < flips; ++flip) {
    content = before;
    // Half of them where structure is.
    const std::size_t at = rng.chance(0.5)   ? rng.below(before.size())
                           : rng.chance(0.5) ? before.size() - 1 - rng.below(2 * kDiskBlock)
                                             : rng.below(2 * kDiskBlock);
    content[at] ^= static_cast<std::byte>(1U << rng.below(8));
    const auto log = open();
    // The one that it fell into, and one other: all of them take too long.
    std::uint64_t missing = 0;
    const std::uint64_t hit = std::min(kEntries - 1, at / (15 * kDiskBlock));
    for (const std::uint64_t n : {hit, (hit + 1) % kEntries}) {
      const auto found = log->read(tier_key(n), memory).value();
      missing += found ? 0 : 1;
      ASSERT_TRUE(!found || std::ranges::equal(found->bytes, tier_bytes(n, kSize)))
          << "byte " << at;
    }
    ASSERT_LE(missing, 1U) << "byte " << at;
    ASSERT_GE(log->recovery().entries.value() + 1, kEntries) << "byte " << at;
    lost += missing;
  }
  std::printf("%llu bits flipped, a start after each: %llu entries lost, 0 wrong bytes\n",
              static_cast<unsigned long long>(flips), static_cast<unsigned long long>(lost));
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
