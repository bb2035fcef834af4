// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/disk/segment_format.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "foundation/platform/fault_points.h"
#include "storage/memory/stored_forms.h"

namespace afterimage {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers in segments are little-endian");

constexpr std::string_view kSegmentMagic = "AFISEGM1";
constexpr std::string_view kTrailerMagic = "AFIFOOT1";
constexpr std::string_view kStoreMagic = "AFISTOR1";
constexpr std::uint32_t kRecordMagic = 0x52494641;  // "AFIR"
constexpr std::uint32_t kVersion = 1;

constexpr std::size_t kRecordFixed = 128;
constexpr std::size_t kRecordChecksumAt = 16;
constexpr std::size_t kBlockChecksumAt = kDiskBlock - 8;

std::uint64_t rounded(std::uint64_t size, std::uint64_t to) { return (size + to - 1) / to * to; }

std::unexpected<Error> damaged(std::string what) {
  return fail(ErrorCode::kCorruption, std::move(what));
}

/// Writes consecutive fields; skipped bytes stay zero.
class Writer {
 public:
  explicit Writer(std::span<std::byte> to) : to_(to) {}
  template <typename T>
  Writer& number(T value) {
    return raw(std::as_bytes(std::span(&value, 1)));
  }
  Writer& raw(std::span<const std::byte> bytes) {
    std::ranges::copy(bytes, to_.subspan(at_).begin());
    at_ += bytes.size();
    return *this;
  }
  Writer& text(std::string_view text) { return raw(std::as_bytes(std::span(text))); }
  Writer& skip(std::size_t n) {
    at_ += n;
    return *this;
  }

 private:
  std::span<std::byte> to_;
  std::size_t at_ = 0;
};

/// Reads consecutive fields. The caller guarantees that there are enough bytes.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : from_(from) {}
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, raw(sizeof value).data(), sizeof value);
    return value;
  }
  template <std::size_t N>
  std::array<std::byte, N> array() {
    std::array<std::byte, N> value;
    std::ranges::copy(raw(N), value.begin());
    return value;
  }
  std::span<const std::byte> raw(std::size_t n) {
    const auto part = from_.subspan(at_, n);
    at_ += n;
    return part;
  }
  Checksum checksum() {
    const auto low = number<std::uint64_t>();
    return {.low = low, .high = number<std::uint64_t>()};
  }

 private:
  std::span<const std::byte> from_;
  std::size_t at_ = 0;
};

/// Ends a block with the checksum of the bytes before it.
void seal_block(std::span<std::byte> block) {
  const std::uint64_t sum = short_checksum(block.first(kBlockChecksumAt));
  Writer(block.subspan(kBlockChecksumAt)).number(sum);
}

std::unexpected<Error> of_version(std::string_view magic, std::uint32_t version) {
  return fail(ErrorCode::kUnsupported,
              std::string(magic) + " of version " + std::to_string(version));
}

Result<Reader> open_block(std::span<const std::byte> block, std::string_view magic) {
  if (block.size() != kDiskBlock || std::memcmp(block.data(), magic.data(), magic.size()) != 0) {
    return damaged("no " + std::string(magic));
  }
  if (!AFI_GUARD("block.checksum",
                 Reader(block.subspan(kBlockChecksumAt)).number<std::uint64_t>() ==
                     short_checksum(block.first(kBlockChecksumAt)))) {
    return damaged(std::string(magic) + " with a wrong checksum");
  }
  Reader reader(block);
  reader.raw(magic.size());
  const auto version = reader.number<std::uint32_t>();
  if (!AFI_GUARD("block.version", version == kVersion)) {
    return of_version(magic, version);
  }
  reader.number<std::uint32_t>();
  return reader;
}

Writer begin_block(std::span<std::byte> block, std::string_view magic) {
  Writer writer(block);
  writer.text(magic).number(kVersion).skip(4);
  return writer;
}

Writer& write_identity(Writer& writer, const SegmentIdentity& identity) {
  return writer.raw(identity.store).raw(identity.epoch).number(identity.segment);
}

SegmentIdentity read_identity(Reader& reader) {
  SegmentIdentity identity;
  identity.store = reader.array<16>();
  identity.epoch = reader.array<16>();
  identity.segment = reader.number<std::uint64_t>();
  return identity;
}

}  // namespace

std::vector<std::byte> encode_segment_header(const SegmentIdentity& identity) {
  std::vector<std::byte> block(kDiskBlock);
  Writer writer = begin_block(block, kSegmentMagic);
  write_identity(writer, identity);
  seal_block(block);
  return block;
}

Result<SegmentIdentity> decode_segment_header(std::span<const std::byte> block) {
  AFI_TRY(Reader reader, open_block(block, kSegmentMagic));
  return read_identity(reader);
}

std::size_t record_header_bytes(const EntryMeta& meta) {
  return rounded(kRecordFixed + meta.form_bytes(), 64);
}

std::uint64_t record_blocks(const EntryMeta& meta, std::uint64_t value_bytes) {
  return rounded(record_header_bytes(meta) + value_bytes, kDiskBlock) / kDiskBlock;
}

std::vector<std::byte> encode_record_header(const RecordHeader& header) {
  std::vector<std::byte> bytes(record_header_bytes(header.meta));
  const TierKey key = header.key.value_or(TierKey{});
  Writer writer(bytes);
  writer.number(kRecordMagic)
      .number(static_cast<std::uint16_t>(kVersion))
      .number(
          static_cast<std::uint8_t>(header.key ? static_cast<std::uint8_t>(key.entry_class) : 0))
      .skip(1)
      .number(static_cast<std::uint32_t>(bytes.size()))
      .number(header.blocks)
      .skip(8)
      .number(header.sequence)
      .number(header.offset)
      .number(static_cast<std::uint64_t>(header.meta.cost.count()))
      .number(header.value_bytes)
      .number(header.value_checksum.low)
      .number(header.value_checksum.high)
      .raw(header.epoch)
      .raw(key.bytes)
      .number(static_cast<std::uint32_t>(header.meta.tensors.size()))
      .number(static_cast<std::uint32_t>(header.meta.labels.size()));
  write_forms(header.meta, std::span(bytes).subspan(kRecordFixed));
  const std::uint64_t sum = short_checksum(bytes);
  Writer(std::span(bytes).subspan(kRecordChecksumAt)).number(sum);
  return bytes;
}

Result<RecordHeader> decode_record_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kRecordFixed || Reader(bytes).number<std::uint32_t>() != kRecordMagic) {
    return damaged("no record");
  }
  Reader reader(bytes);
  reader.number<std::uint32_t>();
  const auto version = reader.number<std::uint16_t>();
  const auto kind = reader.number<std::uint8_t>();
  reader.raw(1);
  const auto size = reader.number<std::uint32_t>();
  if (size < kRecordFixed || size > std::min(kDiskBlock, bytes.size())) {
    return damaged("a record header of " + std::to_string(size) + " bytes");
  }
  std::vector<std::byte> copy(bytes.begin(), bytes.begin() + size);
  std::fill_n(copy.begin() + kRecordChecksumAt, 8, std::byte{0});
  RecordHeader header{.blocks = reader.number<std::uint32_t>()};
  const auto sum = reader.number<std::uint64_t>();
  if (!AFI_GUARD("record.header.checksum", sum == short_checksum(copy))) {
    return damaged("a record header with a wrong checksum");
  }
  if (!AFI_GUARD("record.version", version == kVersion)) {
    return damaged("a record of version " + std::to_string(version));
  }
  header.sequence = reader.number<std::uint64_t>();
  header.offset = reader.number<std::uint64_t>();
  const auto cost = reader.number<std::uint64_t>();
  header.meta.cost = Duration(static_cast<Duration::rep>(cost));
  header.value_bytes = reader.number<std::uint64_t>();
  header.value_checksum = reader.checksum();
  header.epoch = reader.array<16>();
  const auto key = reader.array<kDigestBytes>();
  const auto tensors = reader.number<std::uint32_t>();
  const auto labels = reader.number<std::uint32_t>();
  if (kind != 0) {
    AFI_TRY(const EntryClass entry_class, stored_entry_class(kind));
    header.key = TierKey{.entry_class = entry_class, .bytes = key};
  }
  AFI_TRY_VOID(read_forms(bytes.first(size).subspan(kRecordFixed), tensors, labels, header.meta));
  const std::uint64_t room = std::uint64_t{header.blocks} * kDiskBlock;
  if (!AFI_GUARD("record.bounds", room >= size && header.value_bytes <= room - size)) {
    return damaged("a record exceeds its bounds");
  }
  if (!AFI_GUARD("record.header.size", encode_record_header(header).size() == size)) {
    return damaged("a record header with a wrong size");
  }
  return header;
}

std::uint64_t footer_bytes(std::uint64_t entries) {
  return rounded(entries * kFooterEntryBytes, kDiskBlock) + kDiskBlock;
}

std::vector<std::byte> encode_footer(const SegmentIdentity& identity, std::uint64_t offset,
                                     std::span<const FooterEntry> entries) {
  std::vector<std::byte> bytes(footer_bytes(entries.size()));
  const std::span<std::byte> list = std::span(bytes).first(bytes.size() - kDiskBlock);
  Writer writer(list);
  for (const FooterEntry& entry : entries) {
    writer.raw(entry.key.bytes)
        .number(entry.key.entry_class)
        .skip(7)
        .number(entry.sequence)
        .number(entry.block)
        .number(entry.blocks)
        .number(entry.cost_ns);
  }
  const Checksum sum = Checksum::of(list);
  const std::span<std::byte> trailer = std::span(bytes).subspan(list.size());
  Writer last = begin_block(trailer, kTrailerMagic);
  write_identity(last, identity)
      .number(offset)
      .number(static_cast<std::uint32_t>(entries.size()))
      .skip(4)
      .number(sum.low)
      .number(sum.high);
  seal_block(trailer);
  return bytes;
}

Result<SegmentTrailer> decode_trailer(std::span<const std::byte> block) {
  AFI_TRY(Reader reader, open_block(block, kTrailerMagic));
  SegmentTrailer trailer{.identity = read_identity(reader)};
  trailer.entries_offset = reader.number<std::uint64_t>();
  trailer.entries = reader.number<std::uint32_t>();
  reader.number<std::uint32_t>();
  trailer.entries_checksum = reader.checksum();
  return trailer;
}

Result<std::vector<FooterEntry>> decode_footer(const SegmentTrailer& trailer,
                                               std::span<const std::byte> bytes) {
  if (bytes.size() + kDiskBlock != footer_bytes(trailer.entries)) {
    return damaged("a footer with a wrong size");
  }
  if (!AFI_GUARD("footer.checksum", Checksum::of(bytes) == trailer.entries_checksum)) {
    return damaged("a footer with a wrong checksum");
  }
  std::vector<FooterEntry> entries;
  entries.reserve(trailer.entries);
  Reader reader(bytes);
  for (std::uint32_t i = 0; i < trailer.entries; ++i) {
    FooterEntry entry;
    entry.key.bytes = reader.array<kDigestBytes>();
    AFI_TRY(entry.key.entry_class, stored_entry_class(reader.number<std::uint8_t>()));
    reader.raw(7);
    entry.sequence = reader.number<std::uint64_t>();
    entry.block = reader.number<std::uint32_t>();
    entry.blocks = reader.number<std::uint32_t>();
    entry.cost_ns = reader.number<std::uint64_t>();
    const std::uint64_t end = (std::uint64_t{entry.block} + entry.blocks) * kDiskBlock;
    if (!AFI_GUARD("footer.bounds",
                   entry.block > 0 && entry.blocks > 0 && end <= trailer.entries_offset)) {
      return damaged("a footer that refers outside its segment's records");
    }
    entries.push_back(entry);
  }
  return entries;
}

std::vector<std::byte> encode_store(const DiskId& store) {
  std::vector<std::byte> bytes(2 * kDiskBlock);
  for (std::size_t copy = 0; copy < 2; ++copy) {
    const auto block = std::span(bytes).subspan(copy * kDiskBlock, kDiskBlock);
    Writer writer = begin_block(block, kStoreMagic);
    writer.raw(store);
    seal_block(block);
  }
  return bytes;
}

Result<DiskId> decode_store(std::span<const std::byte> bytes) {
  std::unexpected<Error> error = damaged("both copies of the store id are damaged");
  for (std::size_t at = 0; at + kDiskBlock <= bytes.size() && at < 2 * kDiskBlock;
       at += kDiskBlock) {
    auto reader = open_block(bytes.subspan(at, kDiskBlock), kStoreMagic);
    if (reader) return reader->array<16>();
    if (reader.error().code == ErrorCode::kUnsupported) {
      error = std::unexpected(std::move(reader.error()));
    }
  }
  return error;
}

}  // namespace afterimage
