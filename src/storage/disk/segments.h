// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "foundation/platform/mutex.h"
#include "storage/block_io/block_files.h"
#include "storage/disk/segment_format.h"
#include "storage/disk/segment_log.h"
#include "storage/memory/tier_key_hash.h"

/// The log's in-memory records of its files. Private to this room.
namespace afterimage {

/// The file that holds the store id.
inline constexpr const char* kStoreName = "store.afi";
inline constexpr std::uint64_t kStoreBytes = 2 * kDiskBlock;

struct Segment;

/// One entry on disk. Lives as long as its segment, even when it is dead.
struct LogEntry {
  enum class State : std::uint8_t { kPending, kLive, kDead };

  FooterEntry place;
  Segment* segment = nullptr;
  State state = State::kPending;  // kLive: in the index
};

struct Segment {
  enum class Phase : std::uint8_t { kActive, kSealing, kClosed };

  SegmentIdentity identity;
  std::string name;
  std::shared_ptr<BlockFile> file;
  Phase phase = Phase::kClosed;
  std::uint64_t size = 0;  // on disk
  std::deque<LogEntry> entries;
  std::uint64_t live = 0;
  std::uint64_t last_use = 0;
};

/// Orders segments by number, so that operations on several have a fixed order.
struct ByNumber {
  bool operator()(const auto& a, const auto& b) const {
    return a->identity.segment < b->identity.segment;
  }
};
using SegmentSet = std::set<std::shared_ptr<Segment>, ByNumber>;

/// kUnsupported, for people: another version wrote the folder.
std::unexpected<Error> other_version(const std::string& folder, const Error& found);

std::string segment_name(std::uint64_t id);
/// The number in a segment's file name; nullopt if it is not such a name.
std::optional<std::uint64_t> segment_number(const std::string& name);

/// Hash and equality of the index by key. Keys are compared in full.
struct EntryHash {
  using is_avalanching = void;
  using is_transparent = void;
  std::size_t operator()(const TierKey& key) const noexcept { return TierKeyHash()(key); }
  std::size_t operator()(const LogEntry* entry) const noexcept {
    return TierKeyHash()(entry->place.key);
  }
};
struct EntryEqual {
  using is_transparent = void;
  // Compared at once. NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter)
  static const TierKey& key(const TierKey& key) { return key; }
  static const TierKey& key(const LogEntry* entry) { return entry->place.key; }
  bool operator()(const auto& a, const auto& b) const { return key(a) == key(b); }
};
using EntryIndex = boost::unordered_flat_set<LogEntry*, EntryHash, EntryEqual>;

/// A segment's entries as found on disk.
struct FoundSegment {
  SegmentIdentity identity;
  std::vector<FooterEntry> entries;
  bool sealed = false;
  std::uint64_t end = 0;  // where a footer can be written
};
/// Reads a segment's entries from its footer, or by scanning if it has no valid footer.
///
/// Errors   kCorruption: not a segment of `store`. Any other error: it could not be read.
Result<FoundSegment> find_segment(BlockFile& file, const DiskId& store, std::uint64_t number,
                                  Duration timeout, MemoryBudget& memory, DiskRecovery& report);

/// State of the record at the place that an index entry names.
enum class RecordState : std::uint8_t { kIntact, kErased, kDamaged };
struct CheckedRecord {
  RecordState state = RecordState::kDamaged;
  EntryMeta meta;                    // meta and value: only if intact
  std::span<const std::byte> value;  // within the bytes that were checked
};
/// Compares everything: header, epoch, place, sequence, the whole key, and the value's checksum.
CheckedRecord check_record(std::span<const std::byte> bytes, const FooterEntry& place,
                           const DiskId& epoch);
/// The same but for the value: the header that the record's first block has. An error of code
/// kNotFound: the record is erased; kCorruption: it is another one's, or damaged.
Result<RecordHeader> check_record_header(std::span<const std::byte> block, const FooterEntry& place,
                                         const DiskId& epoch);

/// Reads `size` bytes and waits for them.
Result<std::span<const std::byte>> read_blocks(BlockFile& file, std::uint64_t offset,
                                               const std::shared_ptr<AlignedBytes>& into,
                                               std::size_t size, Duration timeout);
/// Writes whole blocks and waits for completion.
Result<void> write_blocks(BlockFile& file, std::uint64_t offset, std::span<const std::byte> bytes,
                          Duration timeout, MemoryBudget& memory);

}  // namespace afterimage
