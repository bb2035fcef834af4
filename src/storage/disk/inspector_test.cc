// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/disk/inspector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "afterimage/disk_tier.h"
#include "testing/fake_block_folder.h"
#include "testing/temporary_folder.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using testing::DiskFault;
using testing::FakeBlockFolder;
using testing::FakeDisk;
using testing::TemporaryFolder;
using testing::tier_bytes;
using testing::tier_key;

class Inspector : public ::testing::Test {
 protected:
  static SegmentLogOptions options() {
    return {.capacity = 1_MiB,
            .segment_bytes = 64_KiB,
            .batch_bytes = 8_KiB,
            .batches = 3,
            .append_timeout = std::chrono::seconds(10)};
  }
  std::unique_ptr<SegmentLog> log() {
    return SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), options(), memory).value();
  }
  void append(SegmentLog& log, std::uint64_t n, EntryClass entry_class) {
    ASSERT_TRUE(
        log.append(tier_key(n, entry_class), {.cost = Duration(1'000)}, tier_bytes(n, 5'000))
            .has_value());
  }
  /// Twenty entries, of which one was put twice and one was erased.
  void fill() {
    const auto filled = log();
    for (std::uint64_t n = 0; n < 20; ++n) {
      append(*filled, n, n < 15 ? EntryClass::kPrefixKv : EntryClass::kEncoderOutput);
    }
    ASSERT_TRUE(filled->erase(tier_key(3, EntryClass::kPrefixKv)).value());
  }
  Result<DiskInspector> inspect() {
    return DiskInspector::open(std::make_unique<FakeBlockFolder>(disk), memory);
  }
  /// The content of all files, to check that it does not change.
  std::map<std::string, std::vector<std::byte>> bytes() {
    std::map<std::string, std::vector<std::byte>> all;
    for (const auto& [name, file] : disk.files()) all[name] = file->content;
    return all;
  }

  FakeDisk disk;
  MemoryBudget memory{8_MiB};
};

TEST_F(Inspector, ReportsTheContentAndChangesNothing) {
  fill();
  const auto before = bytes();
  const auto inspector = inspect().value();
  const DiskInspection& seen = inspector.inspection();
  EXPECT_EQ(bytes(), before);
  ASSERT_EQ(seen.store.value_or("").size(), 32U);
  EXPECT_EQ(seen.found.scanned, 0U);
  EXPECT_EQ(seen.found.torn_entries, 0U);
  EXPECT_EQ(seen.classes.at(EntryClass::kEncoderOutput).entries, EntryCount(5));
  EXPECT_EQ(seen.classes.at(EntryClass::kEncoderOutput).on_disk, Bytes(5 * 8'192));
  EXPECT_EQ(seen.classes.at(EntryClass::kEncoderOutput).cost, Duration(5'000));
  EXPECT_EQ(seen.segments.size() + 1, disk.files().size());
  EXPECT_EQ(seen.used, Bytes(disk.bytes()));
  std::uint64_t last = 0;
  for (const InspectedSegment& segment : seen.segments) {
    EXPECT_TRUE(segment.sealed);
    EXPECT_GT(segment.first_sequence, last);
    last = segment.last_sequence;
  }
  EXPECT_EQ(last, 20U);
  EXPECT_EQ(memory.used(), 0_B);
}

TEST_F(Inspector, VerifyDistinguishesIntactErasedAndDamaged) {
  fill();
  auto& content = disk.files().at("segment-0000000000000001.afi")->content;
  content[kDiskBlock + 5'000] ^= std::byte{1};  // the first record's value
  const auto before = bytes();
  auto inspector = inspect().value();
  Bytes last;
  Bytes of;
  const auto done = inspector.verify([&](Bytes now, Bytes all) {
    EXPECT_GT(now, last);
    last = now;
    of = all;
  });
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(bytes(), before);
  EXPECT_EQ(last, of);
  EXPECT_EQ(done->damaged, EntryCount(1));
  EXPECT_EQ(done->unreadable, EntryCount(0));
  EXPECT_EQ(done->intact + done->erased, inspector.inspection().found.entries - EntryCount(1));
  EXPECT_EQ(done->intact, EntryCount(18));
  ASSERT_EQ(done->bad.size(), 1U);
  EXPECT_EQ(done->bad[0].segment, "segment-0000000000000001.afi");
  EXPECT_EQ(done->bad[0].offset, kDiskBlock);
  EXPECT_EQ(done->bad[0].key, tier_key(0, EntryClass::kPrefixKv));
}

TEST_F(Inspector, CountsReplacedEntriesOnce) {
  {
    const auto filled = log();
    append(*filled, 1, EntryClass::kPrefixKv);
    ASSERT_TRUE(filled->commit().has_value());
    append(*filled, 1, EntryClass::kPrefixKv);
    disk.fail(DiskFault::kError, 1, 1'000'000);  // prevents clean-up by the destructor
  }
  disk.fail(DiskFault::kNone, 1);
  auto& content = disk.files().begin()->second->content;
  // The second record is on disk beside the first.
  RecordHeader header = decode_record_header(std::span(content).subspan(kDiskBlock)).value();
  header.offset = 3 * kDiskBlock;
  ++header.sequence;
  std::ranges::copy(std::vector(content.begin() + kDiskBlock, content.begin() + 3 * kDiskBlock),
                    content.begin() + 3 * kDiskBlock);
  std::ranges::copy(encode_record_header(header), content.begin() + 3 * kDiskBlock);
  auto inspector = inspect().value();
  const DiskInspection& seen = inspector.inspection();
  EXPECT_EQ(seen.found.entries, EntryCount(1));
  ASSERT_EQ(seen.segments.size(), 1U);
  EXPECT_FALSE(seen.segments[0].sealed);
  EXPECT_EQ(seen.segments[0].replaced, EntryCount(1));
  EXPECT_EQ(seen.segments[0].last_sequence, header.sequence);
  EXPECT_EQ(inspector.verify().value().intact, EntryCount(1));
}

TEST_F(Inspector, ReportsTornEntriesAndUnreadableFiles) {
  fill();
  const std::string name = std::prev(std::prev(disk.files().end()))->first;
  auto& content = disk.files().at(name)->content;
  const auto places = content.size();
  content.resize(places - 2 * kDiskBlock);  // no footer
  std::fill_n(content.end() - kDiskBlock, kDiskBlock, std::byte{0});
  const auto inspector = inspect().value();
  EXPECT_EQ(inspector.inspection().found.scanned, 1U);
  EXPECT_EQ(inspector.inspection().found.torn_entries, 1U);
  disk.fail(DiskFault::kError, 5, 1);
  auto less = inspect().value();
  ASSERT_EQ(less.inspection().unreadable.size(), 1U);
  const auto removed = less.remove().value();
  EXPECT_EQ(std::ranges::count(removed, less.inspection().unreadable[0]), 1)
      << "it has this store's name, so it is ours: it may contain erased entries";
  EXPECT_TRUE(disk.files().empty());
}

TEST_F(Inspector, RemovesItsOwnFilesAndNoOther) {
  fill();
  FakeDisk other;
  {
    const auto theirs =
        SegmentLog::open(std::make_unique<FakeBlockFolder>(other), options(), memory).value();
    append(*theirs, 1, EntryClass::kPrefixKv);
  }
  disk.files()["segment-00000000000000ff.afi"] = other.files().begin()->second;
  disk.files()["holiday.jpg"] = std::make_shared<FakeDisk::File>();
  disk.files()["segment-1.afi"] = std::make_shared<FakeDisk::File>();
  disk.files()["lock"] = std::make_shared<FakeDisk::File>();
  disk.files()["secret"] = std::make_shared<FakeDisk::File>();
  auto inspector = inspect().value();
  EXPECT_EQ(inspector.inspection().foreign,
            std::vector<std::string>{"segment-00000000000000ff.afi"});
  const auto removed = inspector.remove().value();
  EXPECT_EQ(removed, inspector.own_files());
  EXPECT_EQ(removed.back(), "lock") << "until then no process can create a new store";
  std::vector<std::string> left;
  for (const auto& [name, file] : disk.files()) left.push_back(name);
  EXPECT_EQ(left, (std::vector<std::string>{"holiday.jpg", "segment-00000000000000ff.afi",
                                            "segment-1.afi"}));
  EXPECT_EQ(inspect().error().code, ErrorCode::kNotFound);
}

TEST_F(Inspector, ClaimsNothingWithoutTheStoreId) {
  fill();
  std::ranges::fill(disk.files().at("store.afi")->content, std::byte{0});
  auto inspector = inspect().value();
  EXPECT_EQ(inspector.inspection().store, std::nullopt);
  EXPECT_EQ(inspector.inspection().found.entries, EntryCount(0));
  EXPECT_EQ(inspector.own_files(), std::vector<std::string>{"store.afi"});
}

TEST(InspectorOnDisk, RefusesAFolderInUseAndCreatesNothing) {
  TemporaryFolder folder;
  MemoryBudget memory(64_MiB);
  const SystemClock clock;
  EXPECT_EQ(DiskInspector::open(folder.file("absent"), memory).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(folder.file("absent")));
  EXPECT_EQ(DiskInspector::open(folder.path(), memory).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  auto tier = DiskTier::open(folder.path(), {.log = {.capacity = 4_MiB}}, memory, clock).value();
  ASSERT_TRUE(tier->put(tier_key(1), {}, tier_bytes(1, 5'000)).has_value());
  EXPECT_EQ(DiskInspector::open(folder.path(), memory).error().code, ErrorCode::kUnavailable);
  tier.reset();
  {
    auto inspector = DiskInspector::open(folder.path(), memory).value();
    EXPECT_EQ(inspector.verify().value().intact, EntryCount(1));
    EXPECT_FALSE(DiskTier::open(folder.path(), {.log = {.capacity = 4_MiB}}, memory, clock))
        << "nor can another process use it meanwhile";
    ASSERT_TRUE(inspector.remove().has_value());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  tier = DiskTier::open(folder.path(), {.log = {.capacity = 4_MiB}}, memory, clock).value();
  EXPECT_EQ(tier->stats().entries, EntryCount(0)) << "and a new store can be created";
}

}  // namespace
}  // namespace afterimage
