// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "storage/memory/checksum.h"

/// The byte format of a segment: pure encoding and decoding, no I/O.
///
/// Shape    A segment consists of blocks of 4 KiB: a header, records, and once sealed a footer.
/// Errors   kCorruption: the bytes do not match their checksum or contradict themselves;
///          kUnsupported: a block that another version wrote. Any bytes may be given.
/// Source   docs/formats/segment.md specifies every byte.
namespace afterimage {

inline constexpr std::size_t kDiskBlock = 4096;

/// A random 128-bit number: identifies a store, or one use of a segment number (its epoch).
using DiskId = std::array<std::byte, 16>;

/// Stored in a segment's header and again in its footer, so that either copy can be lost.
struct SegmentIdentity {
  DiskId store{};
  DiskId epoch{};  // also in every record, so stale records of another file are never accepted
  std::uint64_t segment = 0;
  bool operator==(const SegmentIdentity&) const = default;
};

std::vector<std::byte> encode_segment_header(const SegmentIdentity& identity);
Result<SegmentIdentity> decode_segment_header(std::span<const std::byte> block);

/// Header of a record, stored before the entry's bytes.
struct RecordHeader {
  std::optional<TierKey> key;  // nullopt: erased; only the place remains
  DiskId epoch{};
  std::uint64_t offset = 0;  // of the record in its segment
  std::uint64_t sequence = 0;
  std::uint32_t blocks = 0;  // the whole record
  EntryMeta meta;
  std::uint64_t value_bytes = 0;
  Checksum value_checksum;
  bool operator==(const RecordHeader&) const = default;
};

/// Size of a record header: a multiple of 64. Specs and labels are within EntryMeta::kMaxFormBytes,
/// so the header ends within the first block.
std::size_t record_header_bytes(const EntryMeta& meta);
/// Number of blocks of a whole record.
std::uint64_t record_blocks(const EntryMeta& meta, std::uint64_t value_bytes);
std::vector<std::byte> encode_record_header(const RecordHeader& header);
/// `bytes` begin with the header and may be longer.
Result<RecordHeader> decode_record_header(std::span<const std::byte> bytes);

/// One line of a footer: the location of an entry.
struct FooterEntry {
  TierKey key;
  std::uint64_t sequence = 0;
  std::uint32_t block = 0;
  std::uint32_t blocks = 0;
  std::uint64_t cost_ns = 0;
  bool operator==(const FooterEntry&) const = default;
};
inline constexpr std::size_t kFooterEntryBytes = 64;

/// The last block of a sealed segment.
struct SegmentTrailer {
  SegmentIdentity identity;
  std::uint64_t entries_offset = 0;  // where the footer begins; records end before it
  std::uint32_t entries = 0;
  Checksum entries_checksum;
  bool operator==(const SegmentTrailer&) const = default;
};

/// Size of a footer with so many entries, including its trailer: whole blocks.
std::uint64_t footer_bytes(std::uint64_t entries);
std::vector<std::byte> encode_footer(const SegmentIdentity& identity, std::uint64_t offset,
                                     std::span<const FooterEntry> entries);
Result<SegmentTrailer> decode_trailer(std::span<const std::byte> block);
/// `bytes` range from entries_offset to the trailer.
Result<std::vector<FooterEntry>> decode_footer(const SegmentTrailer& trailer,
                                               std::span<const std::byte> bytes);

/// The store file holds the store id twice, so that one copy can be lost. Its version is that of the
/// whole folder.
std::vector<std::byte> encode_store(const DiskId& store);
Result<DiskId> decode_store(std::span<const std::byte> bytes);

}  // namespace afterimage
