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

/// The bytes of a segment: pure encoding and decoding, no I/O.
///
/// Shape    A segment is blocks of 4 KiB: a header, records, and once it is sealed a footer.
/// Errors   kCorruption: the bytes are not what their checksum says, or not what they claim to be.
///          Any bytes may be given.
/// Source   docs/formats/segment.md, to the byte.
namespace afterimage {

inline constexpr std::size_t kDiskBlock = 4096;

/// A random number of 128 bits: which store, and which life of which segment.
using DiskId = std::array<std::byte, 16>;

/// Stands in a segment's header and again in its footer, so that either can be lost.
struct SegmentIdentity {
  DiskId store{};
  DiskId epoch{};  // in every record too: bytes of another file are not taken for this one's
  std::uint64_t segment = 0;
  bool operator==(const SegmentIdentity&) const = default;
};

std::vector<std::byte> encode_segment_header(const SegmentIdentity& identity);
Result<SegmentIdentity> decode_segment_header(std::span<const std::byte> block);

/// What stands before an entry's bytes.
struct RecordHeader {
  std::optional<TierKey> key;  // none: erased; nothing but the place is left
  DiskId epoch{};
  std::uint64_t offset = 0;  // of the record in its segment
  std::uint64_t sequence = 0;
  std::uint32_t blocks = 0;  // the whole record
  EntryMeta meta;
  std::uint64_t value_bytes = 0;
  Checksum value_checksum;
  bool operator==(const RecordHeader&) const = default;
};

/// Bytes of the header that goes before an entry: a multiple of 64. Its forms are within
/// EntryMeta::kMaxFormBytes, so that it ends within the first block.
std::size_t record_header_bytes(const EntryMeta& meta);
/// Blocks of a whole record.
std::uint64_t record_blocks(const EntryMeta& meta, std::uint64_t value_bytes);
std::vector<std::byte> encode_record_header(const RecordHeader& header);
/// `bytes` begin with the header and may go on.
Result<RecordHeader> decode_record_header(std::span<const std::byte> bytes);

/// One line of a footer: where an entry is.
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

/// Bytes of a footer with so many entries, its trailer included: whole blocks.
std::uint64_t footer_bytes(std::uint64_t entries);
std::vector<std::byte> encode_footer(const SegmentIdentity& identity, std::uint64_t offset,
                                     std::span<const FooterEntry> entries);
Result<SegmentTrailer> decode_trailer(std::span<const std::byte> block);
/// `bytes` are those from entries_offset to the trailer.
Result<std::vector<FooterEntry>> decode_footer(const SegmentTrailer& trailer,
                                               std::span<const std::byte> bytes);

/// The file that says whose segments these are; twice, so that one copy can be lost.
std::vector<std::byte> encode_store(const DiskId& store);
Result<DiskId> decode_store(std::span<const std::byte> bytes);

}  // namespace afterimage
