// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Recovery when a log is opened: intact, torn, damaged, forged and foreign records.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "storage/disk/inspector.h"
#include "storage/disk/segment_format.h"
#include "storage/disk/segment_log.h"
#include "storage/disk/segments.h"
#include "storage/disk/testing/small_log.h"
#include "storage/memory/checksum.h"
#include "testing/fake_block_folder.h"
#include "testing/forgeries.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using testing::DiskFault;
using testing::FakeBlockFolder;
using testing::FakeDisk;
using testing::small_log;
using testing::tier_bytes;
using testing::tier_key;

/// One segment of a small log whose bytes tests overwrite.
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
    return SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), small_log(1_MiB), memory)
        .value();
  }
  std::vector<std::byte>& content() { return disk.files().at(kName)->content; }
  std::span<std::byte> record(std::uint64_t n) {
    return std::span(content()).subspan((1 + 2 * n) * kDiskBlock, 2 * kDiskBlock);
  }
  /// Replaces a header with one of the same size and a valid checksum.
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

/// Both copies of the store id, as another version would write them.
void write_version(std::vector<std::byte>& store, std::uint32_t version) {
  for (std::size_t at = 0; at < store.size(); at += kDiskBlock) {
    const auto block = std::span(store).subspan(at, kDiskBlock);
    std::memcpy(block.data() + 8, &version, sizeof version);
    const std::uint64_t sum = short_checksum(block.first(kDiskBlock - sizeof sum));
    std::memcpy(block.data() + kDiskBlock - sizeof sum, &sum, sizeof sum);
  }
}

// It was taken for damage: the store id was replaced, and no entry was found again.
TEST_F(ForgedSegment, AFolderOfAnotherVersionIsRefusedAndLeftAlone) {
  std::vector<std::byte>& store = disk.files().at("store.afi")->content;
  const std::vector<std::byte> ours = store;
  write_version(store, 2);
  const std::vector<std::byte> theirs = store;
  const std::vector<std::byte> segment = content();
  const auto refused =
      SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), small_log(1_MiB), memory);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(refused.error().message.contains("version 2")) << refused.error().message;
  EXPECT_EQ(disk.files().at("store.afi")->content, theirs);
  EXPECT_EQ(content(), segment);
  const auto inspected = DiskInspector::open(std::make_unique<FakeBlockFolder>(disk), memory);
  EXPECT_EQ(inspected.error().code, ErrorCode::kUnsupported);
  store = ours;
  EXPECT_TRUE(holds(*open(), 1)) << "once the program of its version is back";
}

TEST_F(ForgedSegment, OneCopyOfTheStoreIdOfThisVersionIsEnough) {
  std::vector<std::byte>& store = disk.files().at("store.afi")->content;
  const std::vector<std::byte> ours = store;
  write_version(store, 2);
  std::ranges::copy(std::span(ours).last(kDiskBlock), store.end() - kDiskBlock);
  EXPECT_TRUE(holds(*open(), 1));
}

// Valid headers that differ in one field from what the index expects.
TEST_F(ForgedSegment, EveryFieldOfARecordIsComparedAtEveryRead) {
  const RecordHeader good = decode_record_header(record(2)).value();
  const std::vector<std::byte> before = content();
  for (const testing::Forgery& c : testing::kForgeries) {
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

TEST_F(ForgedSegment, ARecordThatWasReadInPartIsDamaged) {
  const RecordHeader header = decode_record_header(record(2)).value();
  const FooterEntry place{.key = *header.key,
                          .sequence = header.sequence,
                          .block = static_cast<std::uint32_t>(header.offset / kDiskBlock),
                          .blocks = header.blocks};
  const auto state_of = [&](std::size_t bytes) {
    // In a separate buffer, so that reading past its end is detected.
    const auto part = record(2).first(bytes);
    const std::vector<std::byte> read(part.begin(), part.end());
    return check_record(read, place, header.epoch).state;
  };
  EXPECT_EQ(state_of(2 * kDiskBlock), RecordState::kIntact);
  EXPECT_EQ(state_of(2 * kDiskBlock - 512), RecordState::kDamaged);
  EXPECT_EQ(state_of(kDiskBlock), RecordState::kDamaged);
}

TEST_F(ForgedSegment, AScanIgnoresRecordsOfAnotherPlaceOrEpoch) {
  const auto end_without_footer = [this] { content().resize((1 + 2 * kEntries) * kDiskBlock); };
  end_without_footer();
  const std::vector<std::byte> before = content();
  EXPECT_EQ(open()->recovery().entries, EntryCount(kEntries)) << "undamaged";
  content() = before;
  RecordHeader other_life = decode_record_header(record(2)).value();
  other_life.epoch.front() ^= std::byte{1};
  forge(2, other_life);
  // A copied record that a scan finds before its original.
  std::ranges::copy(std::vector(record(4).begin(), record(4).end()), record(3).begin());
  const auto log = open();
  EXPECT_EQ(log->recovery().scanned, 1U);
  EXPECT_EQ(log->recovery().entries, EntryCount(kEntries - 2));
  for (const std::uint64_t n : {0U, 1U, 4U, 5U}) EXPECT_TRUE(holds(*log, n)) << n;
  EXPECT_FALSE(log->contains(tier_key(2)) || log->contains(tier_key(3)));
}

TEST_F(ForgedSegment, ARecordWithATornValueIsCountedAndNotRecovered) {
  content().resize((1 + 2 * kEntries) * kDiskBlock);
  std::ranges::fill(record(kEntries - 1).last(kDiskBlock), std::byte{0});
  const auto log = open();
  EXPECT_EQ(log->recovery().torn_entries, 1U);
  EXPECT_EQ(log->recovery().torn_bytes, Bytes(kSize));
  EXPECT_EQ(log->recovery().entries, EntryCount(kEntries - 1));
  EXPECT_FALSE(log->contains(tier_key(kEntries - 1)));
}

TEST_F(ForgedSegment, AnErasedRecordIsOverwrittenInPlace) {
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

// Flips one bit anywhere in a closed segment and reopens the log: entries found are right, and at
// most one is lost. AFTERIMAGE_FLIPS sets the number of flips.
TEST(SegmentLogFlips, AFlippedBitCostsAtMostOneEntryAndNeverCorrectness) {
  const char* wanted = std::getenv("AFTERIMAGE_FLIPS");
  const std::uint64_t flips = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 1'024;
  constexpr std::uint64_t kEntries = 8;
  constexpr std::size_t kSize = 60'000;
  FakeDisk disk;
  MemoryBudget memory(16_MiB);
  SegmentLogOptions options = small_log(4_MiB);
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
  ASSERT_EQ(disk.files().size(), 2U) << "one segment and the store file";
  std::vector<std::byte>& content = disk.files().begin()->second->content;
  const std::vector<std::byte> before = content;
  ASSERT_GT(before.size(), 480'000U);
  Rng rng(3);
  std::uint64_t lost = 0;
  for (std::uint64_t flip = 0; flip < flips; ++flip) {
    content = before;
    // Half of them in headers and footer.
    const std::size_t at = rng.chance(0.5)   ? rng.below(before.size())
                           : rng.chance(0.5) ? before.size() - 1 - rng.below(2 * kDiskBlock)
                                             : rng.below(2 * kDiskBlock);
    content[at] ^= static_cast<std::byte>(1U << rng.below(8));
    const auto log = open();
    // Checks the damaged entry and one other: checking all takes too long.
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

TEST(SegmentLogRecovery, ReadsSealedSegmentsByFooterAndScansOthers) {
  FakeDisk disk;
  MemoryBudget memory(8_MiB);
  const auto open = [&] {
    return SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), small_log(4_MiB), memory)
        .value();
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

TEST(SegmentLogRecovery, EnforcesASmallerCap) {
  FakeDisk disk;
  MemoryBudget memory(8_MiB);
  const auto open = [&](Bytes capacity) {
    return SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), small_log(capacity), memory);
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
        SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), small_log(1_MiB), memory).value();
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
      SegmentLog::open(std::make_unique<FakeBlockFolder>(ours), small_log(1_MiB), memory).value();
  EXPECT_EQ(log->recovery().foreign_files, 3U);
  EXPECT_EQ(log->recovery().entries, EntryCount(3));
  EXPECT_FALSE(log->contains(tier_key(100)));
  EXPECT_EQ(ours.files().size(), 6U) << "nothing that is not ours was removed";
  log->check_invariants();
}

}  // namespace
}  // namespace afterimage
