// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/manifest.h"

#include <gtest/gtest.h>

#include "storage/redis/slots.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using testing::tier_key;

RemoteManifest example(std::uint64_t value_bytes, std::uint32_t chunk_bytes) {
  RemoteManifest manifest{.key = tier_key(7),
                          .meta = {.tensors = {{DType::kBF16, Shape{3, 5}}, {DType::kU8, Shape{}}},
                                   .cost = Duration(123'456'789)},
                          .value_bytes = value_bytes,
                          .chunk_bytes = chunk_bytes,
                          .sums = {}};
  for (std::size_t i = 0; i < 16; ++i) manifest.write[i] = static_cast<std::byte>(i);
  const std::uint64_t sums = chunk_bytes == 0 ? 1 : chunk_count(value_bytes, Bytes(chunk_bytes));
  for (std::uint64_t i = 0; i < sums; ++i) manifest.sums.push_back({.low = i, .high = ~i});
  return manifest;
}

TEST(RemoteManifest, RoundTrips) {
  for (const auto& manifest : {example(0, 0), example(1'000, 0), example(1'000, 1'000),
                               example(1'001, 1'000), example(10'000'000, 1U << 20U)}) {
    const auto bytes = encode_manifest(manifest);
    EXPECT_EQ(manifest_bytes(std::span(bytes).first(kManifestFixed)).value(), bytes.size());
    EXPECT_EQ(decode_manifest(bytes).value(), manifest);
  }
}

// The layout of docs/formats/remote.md, to the byte.
TEST(RemoteManifest, MatchesTheDocumentedLayout) {
  const auto bytes = encode_manifest(example(1'001, 1'000));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(bytes.size(), 112U + (8 + 16) + 8 + 2 * 16);
  EXPECT_EQ(text.substr(0, 8), "AFIREMO1");
  EXPECT_EQ(text.substr(8, 8), std::string_view("\1\0\0\0\xB0\0\0\0", 8));
  EXPECT_EQ(text[24], 1) << "the class";
  EXPECT_TRUE(std::ranges::equal(std::span(bytes).subspan(32, 32), tier_key(7).bytes));
  EXPECT_EQ(bytes[64 + 15], std::byte{15}) << "the write";
  EXPECT_EQ(text.substr(80, 8), std::string_view("\xE9\3\0\0\0\0\0\0", 8));
  EXPECT_EQ(text.substr(96, 16), std::string_view("\xE8\3\0\0\2\0\0\0\2\0\0\0\0\0\0\0", 16));
}

TEST(RemoteManifest, ItsBeginningSaysItsLabels) {
  RemoteManifest manifest = example(10'000, 1'000);
  manifest.meta.labels = {EntryLabel(1), EntryLabel(~std::uint64_t{0})};
  const auto bytes = encode_manifest(manifest);
  EXPECT_EQ(decode_manifest(bytes).value(), manifest);
  const std::size_t needed = 112 + (8 + 16) + 8 + 2 * 8;
  EXPECT_EQ(bytes.size(), needed + 10 * 16);
  EXPECT_EQ(bytes[108], std::byte{2}) << "how many";
  EXPECT_EQ(bytes[needed - 8], std::byte{0xFF}) << "the last one";
  const std::span<const std::byte> all = bytes;
  const auto some = manifest_labels(all.first(needed - 1)).value();
  EXPECT_EQ(some.needed, needed);
  EXPECT_EQ(some.labels, std::nullopt);
  EXPECT_EQ(manifest_labels(all.first(needed)).value().labels, manifest.meta.labels);
  EXPECT_EQ(manifest_labels(all).value().labels, manifest.meta.labels);
  EXPECT_FALSE(manifest_labels(all.first(100)).has_value());
  EXPECT_FALSE(manifest_labels(all.subspan(8)).has_value());
}

TEST(RemoteManifest, ItsNameSaysItsKey) {
  const TierKey key = tier_key(7, EntryClass::kAnswer);
  EXPECT_EQ(key_of_manifest(manifest_name(key)), key);
  const std::string name = manifest_name(key);
  std::string no_class = name;
  no_class[7] = '9';
  for (const std::string& other : {std::string(), lease_name(key, key), name + "0", name.substr(1),
                                   name.substr(0, name.size() - 1) + "x", no_class}) {
    EXPECT_EQ(key_of_manifest(other), std::nullopt) << other;
  }
}

TEST(RemoteManifest, RefusesEveryFlippedBitAndEveryOtherLength) {
  auto bytes = encode_manifest(example(1'001, 1'000));
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(decode_manifest(bytes).has_value()) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_manifest(std::span(bytes).first(size)).has_value()) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_manifest(bytes).has_value());
}

// Refused although the checksum is valid.
TEST(RemoteManifest, RefusesContradictingSizes) {
  RemoteManifest few = example(10'000, 1'000);
  few.sums.pop_back();
  EXPECT_FALSE(decode_manifest(encode_manifest(few)).has_value());
  RemoteManifest none = example(10'000, 0);
  none.sums.clear();
  EXPECT_FALSE(decode_manifest(encode_manifest(none)).has_value());
  RemoteManifest large = example(10'000'000, 5U << 20U);
  EXPECT_FALSE(decode_manifest(encode_manifest(large)).has_value());
  RemoteManifest empty = example(0, 1'000);
  EXPECT_FALSE(decode_manifest(encode_manifest(empty)).has_value());
}

TEST(RemoteManifest, KeysFollowTheFormatAndChunksSpreadOverSlots) {
  const TierKey key = tier_key(7, EntryClass::kAnswer);
  EXPECT_EQ(manifest_name(key), "afi1:m:4:" + to_hex(key.bytes));
  const TierKey entry = tier_key(8, EntryClass::kAnswer);
  EXPECT_EQ(lease_name(key, entry),
            "afi1:t:4:" + to_hex(key.bytes) + "{" + manifest_name(entry) + "}");
  EXPECT_EQ(slot_of(lease_name(key, entry)), slot_of(manifest_name(entry)));
  const WriteId write = example(0, 0).write;
  EXPECT_EQ(chunk_name(write, 12), "afi1:c:000102030405060708090a0b0c0d0e0f:12");
  EXPECT_NE(slot_of(chunk_name(write, 1)), slot_of(chunk_name(write, 2)));
}

}  // namespace
}  // namespace afterimage
