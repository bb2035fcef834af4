// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/disk/inspector.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "storage/block_io/read_buffers.h"
#include "storage/disk/segments.h"
#include "storage/memory/tier_key_hash.h"

namespace afterimage {
namespace {

constexpr Duration kReadTimeout = std::chrono::seconds(60);  // a person waits for the result

std::string hex(const DiskId& id) {
  std::string text;
  for (const std::byte byte : id) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

Bytes on_disk(const FooterEntry& entry) { return Bytes(std::uint64_t{entry.blocks} * kDiskBlock); }

}  // namespace

Result<DiskInspector> DiskInspector::open(const std::string& folder, MemoryBudget& memory) {
  AFI_TRY(auto blocks, look_into_block_folder(folder));
  return open(std::move(blocks), memory);
}

Result<DiskInspector> DiskInspector::open(std::unique_ptr<BlockFolder> folder,
                                          MemoryBudget& memory) {
  DiskInspector inspector(std::move(folder), memory);
  AFI_TRY_VOID(inspector.inspect());
  return inspector;
}

Result<void> DiskInspector::inspect() {
  inspection_.folder = folder_->path();
  AFI_TRY(names_, folder_->list());
  if (!std::ranges::binary_search(names_, kStoreName)) {
    return fail(ErrorCode::kNotFound,
                fmt::format("there is no disk tier in '{}': it has no file {}", folder_->path(),
                            kStoreName));
  }
  AFI_TRY(const std::optional<DiskId> store, read_store_id());
  if (store) inspection_.store = hex(*store);
  inspection_.used = Bytes(kStoreBytes);
  for (const std::string& name : names_) {
    const auto number = segment_number(name);
    if (!number) continue;
    if (!store) {
      inspection_.foreign.push_back(name);  // without the store id, their owner is unknown
      continue;
    }
    AFI_TRY_VOID(inspect_segment(name, *number, *store));
  }
  count();
  return {};
}

/// nullopt: both copies of the id are damaged. kUnsupported: of another version.
Result<std::optional<DiskId>> DiskInspector::read_store_id() {
  AFI_TRY(const auto file, folder_->open(kStoreName));
  AFI_TRY(const auto room, AlignedBytes::create(kStoreBytes, *memory_));
  AFI_TRY(const auto bytes, read_blocks(*file, 0, room, kStoreBytes, kReadTimeout));
  const auto store = decode_store(bytes);
  if (!store && store.error().code == ErrorCode::kUnsupported) {
    return other_version(folder_->path(), store.error());
  }
  return store ? std::optional(*store) : std::nullopt;
}

Result<void> DiskInspector::inspect_segment(const std::string& name, std::uint64_t number,
                                            const DiskId& store) {
  const auto file = folder_->open(name);
  const auto size = file ? (*file)->size() : Result<std::uint64_t>(std::unexpected(file.error()));
  const auto found =
      size ? find_segment(**file, store, number, kReadTimeout, *memory_, inspection_.found)
           : Result<FoundSegment>(std::unexpected(size.error()));
  if (!found) {
    if (found.error().code == ErrorCode::kNoSpace) return std::unexpected(found.error());
    const bool foreign = found.error().code == ErrorCode::kCorruption;
    (foreign ? inspection_.foreign : inspection_.unreadable).push_back(name);
    return {};
  }
  inspection_.used += Bytes(*size);
  inspection_.segments.push_back({.name = name, .size = Bytes(*size), .sealed = found->sealed});
  found_.push_back({.name = name, .epoch = found->identity.epoch, .entries = found->entries});
  return {};
}

/// Counts entries; of several records of one key, only the newest.
void DiskInspector::count() {
  std::unordered_map<TierKey, std::uint64_t, TierKeyHash> newest;
  for (const Found& segment : found_) {
    for (const FooterEntry& entry : segment.entries) {
      std::uint64_t& sequence = newest[entry.key];
      sequence = std::max(sequence, entry.sequence);
    }
  }
  for (std::size_t i = 0; i < found_.size(); ++i) {
    std::vector<FooterEntry>& entries = found_[i].entries;
    const auto is_older = [&](const FooterEntry& e) { return newest.at(e.key) != e.sequence; };
    InspectedSegment& segment = inspection_.segments[i];
    segment.replaced = EntryCount(std::erase_if(entries, is_older));
    segment.entries = EntryCount(entries.size());
    for (const FooterEntry& entry : entries) {
      InspectedClass& its = inspection_.classes[entry.key.entry_class];
      its.entries += EntryCount(1);
      its.on_disk += on_disk(entry);
      its.cost += Duration(static_cast<Duration::rep>(entry.cost_ns));
      if (segment.last_sequence == 0) segment.first_sequence = entry.sequence;
      segment.first_sequence = std::min(segment.first_sequence, entry.sequence);
      segment.last_sequence = std::max(segment.last_sequence, entry.sequence);
    }
    inspection_.found.entries += segment.entries;
  }
  inspection_.found.segments = found_.size();
  inspection_.found.foreign_files = inspection_.foreign.size();
  inspection_.found.dropped_segments = inspection_.unreadable.size();
}

Result<DiskVerification> DiskInspector::verify(const Progress& progress) {
  Bytes total;
  for (const auto& [entry_class, its] : inspection_.classes) total += its.on_disk;
  DiskVerification done;
  Bytes passed;
  const auto buffers = std::make_shared<ReadBuffers>(*memory_, 64_MiB);
  for (const Found& segment : found_) {
    const auto file = folder_->open(segment.name);
    for (const FooterEntry& entry : segment.entries) {
      const std::uint64_t at = std::uint64_t{entry.block} * kDiskBlock;
      const std::size_t size = on_disk(entry).value();
      const auto bad = [&](EntryCount& counter, std::string problem) {
        counter += EntryCount(1);
        done.bad.push_back({.segment = segment.name,
                            .offset = at,
                            .key = entry.key,
                            .problem = std::move(problem)});
      };
      passed += Bytes(size);
      AFI_TRY(const auto room, buffers->take(size, *memory_));
      const auto bytes = file ? read_blocks(**file, at, room, size, kReadTimeout)
                              : Result<std::span<const std::byte>>(std::unexpected(file.error()));
      if (!bytes) {
        bad(done.unreadable, bytes.error().message);
        continue;
      }
      done.read += Bytes(bytes->size());
      switch (check_record(*bytes, entry, segment.epoch).state) {
        case RecordState::kIntact:
          done.intact += EntryCount(1);
          break;
        case RecordState::kErased:
          done.erased += EntryCount(1);
          break;
        case RecordState::kDamaged:
          bad(done.damaged, "its bytes differ from what was stored");
          break;
      }
      if (progress) progress(passed, total);
    }
  }
  return done;
}

std::vector<std::string> DiskInspector::own_files() const {
  std::vector<std::string> own;
  for (const InspectedSegment& segment : inspection_.segments) own.push_back(segment.name);
  own.insert(own.end(), inspection_.unreadable.begin(), inspection_.unreadable.end());
  std::ranges::sort(own);
  own.emplace_back(kStoreName);
  // The lock last: until then no process can create a new store here.
  for (const char* name : {"secret.new", "secret", "lock"}) {
    if (std::ranges::binary_search(names_, name)) own.emplace_back(name);
  }
  return own;
}

Result<std::vector<std::string>> DiskInspector::remove() {
  std::vector<std::string> removed;
  for (const std::string& name : own_files()) {
    AFI_TRY_VOID(folder_->remove(name));
    removed.push_back(name);
  }
  return removed;
}

}  // namespace afterimage
