// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/disk/segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "foundation/platform/fault_points.h"

namespace afterimage {
namespace {

constexpr std::size_t kScanBytes = std::size_t{1} << 20U;

/// Reads a segment sequentially in large pieces and returns it block by block.
class Scanner {
 public:
  Scanner(BlockFile& file, std::uint64_t size, Duration timeout,
          std::shared_ptr<AlignedBytes> memory, DiskRecovery& report)
      : file_(file), size_(size), patience_(timeout), memory_(std::move(memory)), report_(report) {}

  /// Empty at the end.
  Result<std::span<const std::byte>> block(std::uint64_t offset) {
    if (offset + kDiskBlock > size_) return std::span<const std::byte>();
    if (piece_.empty() || offset < start_ || offset + kDiskBlock > start_ + piece_.size()) {
      const auto wanted = std::min<std::uint64_t>(kScanBytes, size_ - offset);
      AFI_TRY(piece_, read_blocks(file_, offset, memory_, wanted, patience_));
      report_.bytes_read += Bytes(piece_.size());
      start_ = offset;
    }
    const std::size_t at = offset - start_;
    return at + kDiskBlock > piece_.size() ? std::span<const std::byte>()
                                           : piece_.subspan(at, kDiskBlock);
  }

 private:
  BlockFile& file_;
  std::uint64_t size_;
  Duration patience_;
  std::shared_ptr<AlignedBytes> memory_;
  DiskRecovery& report_;
  std::span<const std::byte> piece_;
  std::uint64_t start_ = 0;
};

/// Whether the value after a valid header is complete. A value too large for the available memory
/// is assumed complete, since every read verifies it again.
Result<bool> value_is_whole(BlockFile& file, const RecordHeader& header, Duration timeout,
                            MemoryBudget& memory, DiskRecovery& report) {
  const std::size_t size = std::size_t{header.blocks} * kDiskBlock;
  const auto room = AlignedBytes::create(size, memory);
  if (!room) return true;
  AFI_TRY(const auto record, read_blocks(file, header.offset, *room, size, timeout));
  report.bytes_read += Bytes(record.size());
  if (record.size() < size) return false;
  const auto value = record.subspan(record_header_bytes(header.meta), header.value_bytes);
  return AFI_GUARD("scan.value.checksum", Checksum::of(value) == header.value_checksum);
}

/// Collects records by their headers, and searches for the next one after a bad header. A record
/// contains its own place and its segment's epoch, so no value can be mistaken for one.
Result<void> scan(BlockFile& file, std::uint64_t size, Duration timeout, MemoryBudget& memory,
                  FoundSegment& found, DiskRecovery& report) {
  AFI_TRY(auto piece, AlignedBytes::create(kScanBytes, memory));
  Scanner scanner(file, size, timeout, std::move(piece), report);
  found.end = kDiskBlock;
  for (std::uint64_t at = kDiskBlock; at < size;) {
    AFI_TRY(const auto block, scanner.block(at));
    if (block.empty()) break;
    const auto header = decode_record_header(block);
    const std::uint64_t end =
        header ? at + std::uint64_t{header->blocks} * kDiskBlock : at + kDiskBlock;
    if (!header || !AFI_GUARD("scan.epoch", header->epoch == found.identity.epoch) ||
        !AFI_GUARD("scan.place", header->offset == at)) {
      at += kDiskBlock;
      continue;
    }
    bool whole = end <= size;
    if (whole && header->key) {
      AFI_TRY(whole, value_is_whole(file, *header, timeout, memory, report));
    }
    if (!whole) {
      ++report.torn_entries;
      report.torn_bytes += Bytes(header->value_bytes);
      at += kDiskBlock;
      continue;
    }
    if (header->key) {
      found.entries.push_back({.key = *header->key,
                               .sequence = header->sequence,
                               .block = static_cast<std::uint32_t>(at / kDiskBlock),
                               .blocks = header->blocks,
                               .cost_ns = static_cast<std::uint64_t>(header->meta.cost.count())});
    }
    at = found.end = end;
  }
  return {};
}

/// Reads the entries from the footer. False: there is no valid footer.
Result<bool> by_footer(BlockFile& file, std::uint64_t size, const SegmentTrailer& trailer,
                       Duration timeout, MemoryBudget& memory, FoundSegment& found,
                       DiskRecovery& report) {
  const std::uint64_t bytes = footer_bytes(trailer.entries) - kDiskBlock;
  if (bytes > size - kDiskBlock || trailer.entries_offset != size - kDiskBlock - bytes) {
    return false;
  }
  AFI_TRY(const auto room, AlignedBytes::create(bytes, memory));
  AFI_TRY(const auto list, read_blocks(file, trailer.entries_offset, room, bytes, timeout));
  report.bytes_read += Bytes(list.size());
  auto entries = decode_footer(trailer, list);
  if (!entries) return false;
  found.entries = *std::move(entries);
  found.end = trailer.entries_offset;
  return true;
}

}  // namespace

std::unexpected<Error> other_version(const std::string& folder, const Error& found) {
  return fail(ErrorCode::kUnsupported,
              fmt::format("another version of this program wrote '{}' ({} holds {}): use another "
                          "folder, or that version; nothing in it was changed",
                          folder, kStoreName, found.message));
}

std::string segment_name(std::uint64_t id) { return fmt::format("segment-{:016x}.afi", id); }

std::optional<std::uint64_t> segment_number(const std::string& name) {
  std::uint64_t id = 0;
  if (name.size() != segment_name(0).size()) return std::nullopt;
  std::from_chars(name.data() + 8, name.data() + 24, id, 16);
  if (segment_name(id) != name) return std::nullopt;
  return id;
}

Result<RecordHeader> check_record_header(std::span<const std::byte> block, const FooterEntry& place,
                                         const DiskId& epoch) {
  AFI_TRY(RecordHeader header, decode_record_header(block));
  const auto other = [](const char* what) {
    return fail(ErrorCode::kCorruption, std::string("a record of another ") + what);
  };
  if (!AFI_GUARD("record.epoch", header.epoch == epoch)) return other("segment");
  if (!AFI_GUARD("record.place", header.offset == std::uint64_t{place.block} * kDiskBlock)) {
    return other("place");
  }
  if (!header.key) return fail(ErrorCode::kNotFound, "the record is erased");
  if (!AFI_GUARD("record.key", header.key == place.key)) return other("key");
  if (!AFI_GUARD("record.sequence", header.sequence == place.sequence)) return other("write");
  if (!AFI_GUARD("record.blocks", header.blocks == place.blocks)) return other("size");
  return header;
}

CheckedRecord check_record(std::span<const std::byte> bytes, const FooterEntry& place,
                           const DiskId& epoch) {
  auto header = check_record_header(bytes, place, epoch);
  if (!header.has_value()) {
    const bool erased = header.error().code == ErrorCode::kNotFound;
    return {.state = erased ? RecordState::kErased : RecordState::kDamaged};
  }
  if (!AFI_GUARD("record.whole", bytes.size() == std::size_t{place.blocks} * kDiskBlock)) {
    return {.state = RecordState::kDamaged};
  }
  const auto value = bytes.subspan(record_header_bytes(header->meta), header->value_bytes);
  if (!AFI_GUARD("value.checksum", Checksum::of(value) == header->value_checksum)) {
    return {.state = RecordState::kDamaged};
  }
  return {.state = RecordState::kIntact, .meta = std::move(header->meta), .value = value};
}

Result<std::span<const std::byte>> read_blocks(BlockFile& file, std::uint64_t offset,
                                               const std::shared_ptr<AlignedBytes>& into,
                                               std::size_t size, Duration timeout) {
  if (size == 0) return std::span<const std::byte>();
  AFI_TRY(const std::size_t got, file.read(offset, into, size)->wait(timeout));
  return std::as_const(*into).bytes().first(std::min(got, size));
}

Result<void> write_blocks(BlockFile& file, std::uint64_t offset, std::span<const std::byte> bytes,
                          Duration timeout, MemoryBudget& memory) {
  AFI_TRY(const auto copy, AlignedBytes::create(bytes.size(), memory));
  std::memcpy(copy->bytes().data(), bytes.data(), bytes.size());
  AFI_TRY([[maybe_unused]] const std::size_t written,
          file.write(offset, copy, bytes.size())->wait(timeout));
  return {};
}

Result<FoundSegment> find_segment(BlockFile& file, const DiskId& store, std::uint64_t number,
                                  Duration timeout, MemoryBudget& memory, DiskRecovery& report) {
  AFI_TRY(std::uint64_t size, file.size());
  size -= size % kDiskBlock;
  if (size < kDiskBlock) return fail(ErrorCode::kCorruption, "the file is too short for a segment");
  AFI_TRY(const auto room, AlignedBytes::create(kDiskBlock, memory));
  AFI_TRY(const auto last, read_blocks(file, size - kDiskBlock, room, kDiskBlock, timeout));
  const auto trailer = decode_trailer(last);
  AFI_TRY(const auto first, read_blocks(file, 0, room, kDiskBlock, timeout));
  const auto header = decode_segment_header(first);
  report.bytes_read += Bytes(2 * kDiskBlock);
  if (!header && !trailer &&
      std::ranges::all_of(first, [](std::byte b) { return b == std::byte{0}; })) {
    return fail(ErrorCode::kNotFound, "a segment without a header: nothing was written to it");
  }
  if (!header && !trailer) return fail(ErrorCode::kCorruption, header.error().message);
  FoundSegment found{.identity = header ? *header : trailer->identity};
  if (!AFI_GUARD("segment.store", found.identity.store == store) ||
      !AFI_GUARD("segment.number", found.identity.segment == number)) {
    return fail(ErrorCode::kCorruption, "a segment of another store");
  }
  if (trailer && AFI_GUARD("footer.identity", trailer->identity == found.identity)) {
    AFI_TRY(found.sealed, by_footer(file, size, *trailer, timeout, memory, found, report));
  }
  if (!found.sealed) {
    ++report.scanned;
    AFI_TRY_VOID(scan(file, size, timeout, memory, found, report));
  }
  return found;
}

}  // namespace afterimage
