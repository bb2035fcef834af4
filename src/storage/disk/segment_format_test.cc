// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/disk/segment_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using testing::tier_bytes;
using testing::tier_key;

DiskId id(unsigned first) {
  DiskId value;
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<std::byte>(first + i);
  return value;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned>(byte) >> 4U];
    text += kDigits[static_cast<unsigned>(byte) & 15U];
  }
  return text;
}

SegmentIdentity identity() { return {.store = id(0x10), .epoch = id(0x30), .segment = 7}; }

RecordHeader record() {
  RecordHeader header{.key = TierKey{.entry_class = EntryClass::kPrefixKv},
                      .epoch = id(0x30),
                      .offset = 8192,
                      .sequence = 42,
                      .blocks = 3,
                      .meta = {.tensors = {{DType::kBF16, Shape{2, 3}}}, .cost = Duration(1'000)},
                      .value_bytes = 9'000,
                      .value_checksum = {.low = 1, .high = 2}};
  for (std::size_t i = 0; i < 32; ++i) header.key->bytes[i] = static_cast<std::byte>(0x80 + i);
  return header;
}

// Golden bytes computed by tests/golden/disk_segments.py, an independent implementation of
// docs/formats/segment.md. They never change.
TEST(SegmentFormat, HasItsGoldenBytes) {
  const auto header = encode_record_header(record());
  EXPECT_EQ(hex(header),
            "4146495201000200c000000003000000951cc5d23cd8f0be2a0000000000000000200000000000"
            "00e80300000000000028230000000000000100000000000000020000000000000030313233343536"
            "3738393a3b3c3d3e3f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e"
            "9f0100000000000000030200000000000002000000000000000300000000000000" +
                std::string(80, '0'));
  RecordHeader labelled = record();
  labelled.meta.labels = {EntryLabel(7), EntryLabel(std::uint64_t{1} << 63U)};
  EXPECT_EQ(hex(encode_record_header(labelled)),
            "4146495201000200c0000000030000004e56dc5514a7fb002a0000000000000000200000000000"
            "00e80300000000000028230000000000000100000000000000020000000000000030313233343536"
            "3738393a3b3c3d3e3f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e"
            "9f01000000020000000302000000000000020000000000000003000000000000000700000000000000"
            "0000000000000080" +
                std::string(48, '0'));
  const auto block = encode_segment_header(identity());
  EXPECT_EQ(hex(std::span(block).first(56)),
            "4146495345474d310100000000000000101112131415161718191a1b1c1d1e1f"
            "303132333435363738393a3b3c3d3e3f0700000000000000");
  EXPECT_EQ(hex(std::span(block).last(8)), "d4ff99e116bb91d1");
  const std::vector<FooterEntry> entries = {
      {.key = *record().key, .sequence = 42, .block = 2, .blocks = 3, .cost_ns = 1'000}};
  const auto footer = encode_footer(identity(), 20'480, entries);
  EXPECT_EQ(hex(std::span(footer).first(64)),
            "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"
            "02000000000000002a000000000000000200000003000000e803000000000000");
  EXPECT_EQ(hex(std::span(footer).subspan(kDiskBlock, 88)),
            "414649464f4f54310100000000000000101112131415161718191a1b1c1d1e1f"
            "303132333435363738393a3b3c3d3e3f07000000000000000050000000000000"
            "01000000000000008b24befba737a8856db6cd871145ec72");
  EXPECT_EQ(hex(std::span(footer).last(8)), "a87af6037d5d7abf");
}

TEST(SegmentFormat, HasItsGoldenBytesWhereThereIsLess) {
  RecordHeader formless = record();
  formless.meta.tensors.clear();
  EXPECT_EQ(hex(encode_record_header(formless)),
            "41464952010002008000000003000000"
            "5e65e25fa63de63f2a00000000000000"
            "0020000000000000e803000000000000"
            "28230000000000000100000000000000"
            "02000000000000003031323334353637"
            "38393a3b3c3d3e3f8081828384858687"
            "88898a8b8c8d8e8f9091929394959697"
            "98999a9b9c9d9e9f0000000000000000");
  const RecordHeader erased = {.epoch = id(0x30), .offset = 8192, .sequence = 42, .blocks = 3};
  EXPECT_EQ(hex(encode_record_header(erased)),
            "41464952010000008000000003000000"
            "97b3fd9235adcf3e2a00000000000000"
            "00200000000000000000000000000000" +
                std::string(48, '0') + "3031323334353637" + "38393a3b3c3d3e3f" +
                std::string(80, '0'));
  const auto name = encode_store(id(0x10));
  for (const std::size_t at : {std::size_t{0}, kDiskBlock}) {
    const auto copy = std::span(name).subspan(at, kDiskBlock);
    EXPECT_EQ(hex(copy.first(32)),
              "41464953544f52310100000000000000101112131415161718191a1b1c1d1e1f");
    EXPECT_EQ(hex(copy.last(8)), "45da1b7fc3e17312");
  }
}

TEST(SegmentFormat, EverythingSurvivesARoundTrip) {
  EXPECT_EQ(decode_segment_header(encode_segment_header(identity())), identity());
  EXPECT_EQ(decode_record_header(encode_record_header(record())), record());
  RecordHeader labelled = record();
  labelled.meta.labels.assign(40, EntryLabel(5));
  EXPECT_EQ(decode_record_header(encode_record_header(labelled)), labelled);
  RecordHeader erased = record();
  erased.key.reset();
  EXPECT_EQ(decode_record_header(encode_record_header(erased)), erased);
  EXPECT_EQ(decode_store(encode_store(id(3))), id(3));
  for (const std::uint32_t n : {0U, 1U, 64U, 65U}) {
    std::vector<FooterEntry> entries;
    for (std::uint32_t i = 0; i < n; ++i) {
      entries.push_back({.key = tier_key(i), .sequence = i, .block = 1 + i, .blocks = 1});
    }
    const auto footer = encode_footer(identity(), 1'000'000 * kDiskBlock, entries);
    EXPECT_EQ(footer.size(), footer_bytes(n));
    const auto trailer = decode_trailer(std::span(footer).last(kDiskBlock));
    ASSERT_TRUE(trailer.has_value());
    EXPECT_EQ(trailer->identity, identity());
    EXPECT_EQ(decode_footer(*trailer, std::span(footer).first(footer.size() - kDiskBlock)),
              entries);
  }
}

TEST(SegmentFormat, EveryFlippedBitOfAHeaderOrAFooterIsDetected) {
  const auto seen = [](std::vector<std::byte> bytes, const auto& decode) {
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      ASSERT_FALSE(decode(bytes)) << "bit " << bit;
      bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    }
  };
  seen(encode_record_header(record()),
       [](const auto& b) { return decode_record_header(b).has_value(); });
  seen(encode_segment_header(identity()),
       [](const auto& b) { return decode_segment_header(b).has_value(); });
  const std::vector<FooterEntry> entries = {
      {.key = *record().key, .sequence = 42, .block = 2, .blocks = 3, .cost_ns = 1'000}};
  seen(encode_footer(identity(), 20'480, entries), [](const auto& b) {
    const auto trailer = decode_trailer(std::span(b).last(kDiskBlock));
    return trailer && decode_footer(*trailer, std::span(b).first(kDiskBlock)).has_value();
  });
}

TEST(SegmentFormat, RefusesForgedFieldsWithAValidChecksum) {
  RecordHeader header = record();
  header.value_bytes = 3 * kDiskBlock;
  EXPECT_FALSE(decode_record_header(encode_record_header(header)).has_value()) << "value too long";
  header = record();
  header.value_bytes = ~std::uint64_t{0};
  EXPECT_FALSE(decode_record_header(encode_record_header(header)).has_value());
  header = record();
  header.blocks = 0;
  EXPECT_FALSE(decode_record_header(encode_record_header(header)).has_value());
  for (const FooterEntry& entry :
       {FooterEntry{.block = 0, .blocks = 1}, FooterEntry{.block = 1, .blocks = 0},
        FooterEntry{.block = 1, .blocks = 2}, FooterEntry{.block = ~0U, .blocks = ~0U}}) {
    const auto footer = encode_footer(identity(), 2 * kDiskBlock, std::span(&entry, 1));
    const auto trailer = decode_trailer(std::span(footer).last(kDiskBlock));
    EXPECT_FALSE(
        decode_footer(*trailer, std::span(footer).first(footer.size() - kDiskBlock)).has_value());
  }
}

TEST(SegmentFormat, OneCopyOfTheStoreIdIsEnough) {
  auto bytes = encode_store(id(3));
  bytes[5] ^= std::byte{1};
  EXPECT_EQ(decode_store(bytes), id(3));
  bytes[kDiskBlock + 30] ^= std::byte{1};
  EXPECT_FALSE(decode_store(bytes).has_value());
  EXPECT_FALSE(decode_store({}).has_value());
}

}  // namespace
}  // namespace afterimage
