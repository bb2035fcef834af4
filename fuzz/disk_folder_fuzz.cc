// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// A folder of segments with arbitrary damage, also behind valid checksums: opening and inspecting
// it keep the accounting consistent, and a read returns what some record of that key held. The
// input is a program that writes the folder.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/result.h"
#include "fuzz_input.h"
#include "storage/disk/inspector.h"
#include "storage/disk/segments.h"
#include "testing/fake_block_folder.h"
#include "testing/tier_entries.h"

using namespace afterimage;
using testing::FakeBlockFolder;
using testing::FakeDisk;
using testing::FuzzInput;
using testing::tier_bytes;
using testing::tier_key;

namespace {

constexpr std::uint64_t kKeys = 8;
constexpr std::uint64_t kFresh = 99;  // a key that no program writes
constexpr SegmentLogOptions kOptions{.capacity = 512_KiB,
                                     .segment_bytes = 64_KiB,
                                     .batch_bytes = 8_KiB,
                                     .batches = 2,
                                     .idle_bytes = 0_B,
                                     .append_timeout = std::chrono::seconds(10)};

DiskId id_of(std::uint8_t n) {
  DiskId id{};
  id.fill(static_cast<std::byte>(n));
  return id;
}

EntryMeta meta_of(std::uint8_t n) {
  if (n % 4 == 0) return {};
  return {.tensors = {{DType::kF16, Shape{n, 3}}, {DType::kU8, Shape{}}}, .cost = Duration(n)};
}

/// One record; valid if nothing in it is falsified.
struct Written {
  RecordHeader header;
  std::uint64_t key = 0;
  std::vector<std::byte> value;
};

Written record_of(FuzzInput& input, std::uint64_t offset, std::uint8_t epoch) {
  Written record{.key = input.u8() % kKeys};
  const std::uint8_t lies = input.u8();
  record.value = tier_bytes(input.u8(), input.u16() % 9'000U);
  record.header = {.key = tier_key(record.key),
                   .epoch = id_of(epoch),
                   .offset = offset,
                   .sequence = input.u8(),
                   .meta = meta_of(input.u8()),
                   .value_bytes = record.value.size(),
                   .value_checksum = Checksum::of(record.value)};
  record.header.blocks =
      static_cast<std::uint32_t>(record_blocks(record.header.meta, record.value.size()));
  if ((lies & 1U) != 0) record.header.blocks = input.u32();
  if ((lies & 2U) != 0) record.header.value_bytes = input.u64();
  if ((lies & 4U) != 0) record.header.offset = input.u64();
  if ((lies & 8U) != 0) record.header.sequence = input.u64();
  if ((lies & 16U) != 0) record.header.epoch = id_of(input.u8());
  if ((lies & 32U) != 0) record.header.value_checksum.low ^= 1;
  if ((lies & 64U) != 0) record.header.key = std::nullopt;
  return record;
}

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

using Kept = std::map<std::uint64_t, std::set<std::vector<std::byte>>>;

std::vector<std::byte> segment_of(FuzzInput& input, std::uint64_t number, Kept& kept) {
  const std::uint8_t lies = input.u8();
  SegmentIdentity identity{.store = id_of(1), .epoch = id_of(2), .segment = number};
  if ((lies & 1U) != 0) identity.store = id_of(input.u8());
  if ((lies & 2U) != 0) identity.segment = input.u64();
  std::vector<std::byte> content = encode_segment_header(identity);
  std::vector<FooterEntry> footer;
  for (std::uint8_t left = input.u8() % 5; left > 0; --left) {
    const Written record = record_of(input, content.size(), 2);
    const std::uint64_t begin = content.size();
    append(content, encode_record_header(record.header));
    append(content, record.value);
    content.resize((content.size() + kDiskBlock - 1) / kDiskBlock * kDiskBlock);
    kept[record.key].insert(record.value);
    footer.push_back({.key = tier_key(record.key),
                      .sequence = record.header.sequence,
                      .block = static_cast<std::uint32_t>(begin / kDiskBlock),
                      .blocks = static_cast<std::uint32_t>((content.size() - begin) / kDiskBlock)});
  }
  if ((lies & 4U) != 0) {
    for (FooterEntry& entry : footer) {
      switch (input.u8()) {
        case 1:
          entry.block = input.u32();
          break;
        case 2:
          entry.blocks = input.u32();
          break;
        case 3:
          entry.sequence = input.u64();
          break;
        case 4:
          entry.key = tier_key(input.u8() % kKeys);
          break;
        default:
          break;
      }
    }
  }
  if ((lies & 8U) != 0) {
    const std::uint64_t at = (lies & 16U) != 0 ? input.u64() : content.size();
    append(content, encode_footer(identity, at, footer));
  } else {
    content.resize(std::max<std::size_t>(content.size(), 64 << 10U));
  }
  if ((lies & 32U) != 0) content.resize(input.u16() % 16 * kDiskBlock);
  for (std::uint8_t left = (lies & 64U) != 0 ? input.u8() % 8 : 0; left > 0; --left) {
    const std::size_t at = input.u16();
    const auto byte = static_cast<std::byte>(input.u8());
    if (at < content.size()) content[at] = byte;
  }
  return content;
}

void put_file(FakeDisk& disk, const std::string& name, std::vector<std::byte> content) {
  auto file = std::make_shared<FakeDisk::File>();
  file->durable = content;
  file->content = std::move(content);
  file->named = true;
  disk.files()[name] = std::move(file);
}

Kept write_folder(FuzzInput& input, FakeDisk& disk) {
  Kept kept;
  const std::uint8_t store = input.u8();
  std::vector<std::byte> name = encode_store(id_of(1));
  if ((store & 1U) != 0) name[input.u16() % name.size()] ^= std::byte{1};
  if ((store & 2U) != 0) name[input.u16() % name.size()] ^= std::byte{1};
  if ((store & 4U) != 0) name.resize(input.u16() % name.size());
  put_file(disk, kStoreName, std::move(name));
  for (std::uint64_t left = 1 + input.u8() % 3; left > 0 && !input.empty(); --left) {
    const std::uint8_t at = input.u8();
    const std::uint64_t number = at == 255 ? UINT64_MAX : at % 8U;
    put_file(disk, segment_name(number), segment_of(input, number, kept));
  }
  return kept;
}

/// The keys that are found; each with bytes that it had at some time.
std::map<std::uint64_t, std::vector<std::byte>> read_all(SegmentLog& log, const Kept& kept,
                                                         MemoryBudget& memory) {
  std::map<std::uint64_t, std::vector<std::byte>> found;
  for (std::uint64_t n = 0; n < kKeys; ++n) {
    const auto entry = log.read(tier_key(n), memory);
    if (!entry.has_value() || !entry->has_value()) continue;
    const std::vector<std::byte> bytes((*entry)->bytes.begin(), (*entry)->bytes.end());
    AFI_CHECK(kept.contains(n) && kept.at(n).contains(bytes));
    found[n] = bytes;
  }
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  FakeDisk disk;
  const Kept kept = write_folder(input, disk);
  MemoryBudget memory(2_MiB);
  {
    auto inspector = DiskInspector::open(std::make_unique<FakeBlockFolder>(disk), memory);
    if (inspector.has_value()) static_cast<void>(inspector->verify());
  }
  std::map<std::uint64_t, std::vector<std::byte>> found;
  const std::vector<std::byte> fresh = tier_bytes(kFresh, 5'000);
  {
    auto log = SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), kOptions, memory);
    if (!log.has_value()) {
      AFI_CHECK(!log.error().message.empty());
      return 0;
    }
    (*log)->check_invariants();
    found = read_all(**log, kept, memory);
    (*log)->check_invariants();
    if ((*log)->append(tier_key(kFresh), {}, fresh).value_or(false)) {
      AFI_CHECK((*log)->commit().has_value());
      const auto entry = (*log)->read(tier_key(kFresh), memory);
      AFI_CHECK(entry.has_value() && entry->has_value());
      AFI_CHECK(std::ranges::equal((*entry)->bytes, fresh));
    }
    for (const auto& [n, bytes] : found) {
      if (n % 2 == 0) AFI_CHECK((*log)->erase(tier_key(n)).has_value());
    }
    (*log)->check_invariants();
  }
  // Erased entries stay erased, and no entry appears that was not there before.
  const auto log = SegmentLog::open(std::make_unique<FakeBlockFolder>(disk), kOptions, memory);
  AFI_CHECK(log.has_value());
  (*log)->check_invariants();
  for (const auto& [n, bytes] : read_all(**log, kept, memory))
    AFI_CHECK(!(n % 2 == 0 && found.contains(n)));
  return 0;
}
