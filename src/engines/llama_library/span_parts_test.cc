// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/span_parts.h"

#include <gtest/gtest.h>

#include <string>

#include "testing/written_sequence.h"

namespace afterimage {
namespace {

using Parts = std::vector<SpanPart>;
using testing::append_number;
using testing::WrittenBytes;

SpanMedia media(std::uint32_t length, std::size_t bytes) {
  SpanMedia made{.length = TokenCount(length), .description = {}};
  for (std::size_t i = 0; i < bytes; ++i) made.description.push_back(static_cast<std::byte>(i + 1));
  return made;
}
SpanText text(std::initializer_list<int> tokens) {
  SpanText made;
  for (const int token : tokens) made.push_back(TokenId(token));
  return made;
}

Result<Parts> read(const WrittenBytes& bytes) {
  return parts_of(TensorView::over(DType::kU8, {bytes.size()}, bytes).value());
}

/// Bytes from 32-bit numbers, as documented in the header.
WrittenBytes written(std::initializer_list<std::uint32_t> numbers) {
  WrittenBytes bytes;
  for (const std::uint32_t number : numbers) append_number(number, bytes);
  return bytes;
}
constexpr std::uint32_t kMagic = 0x50494641;

const Parts kTiles = {media(4, 9), text({7, 8}), media(6, 0), text({-1}), media(1, 3)};

TEST(SpanParts, RoundTrip) {
  for (const Parts& parts : {Parts{media(1, 0)}, Parts{media(300, 70)}, Parts{text({5})}, kTiles}) {
    const Tensor tensor = to_tensor(parts);
    ASSERT_EQ(tensor.dtype, DType::kU8);
    ASSERT_EQ(tensor.shape, Shape{tensor.bytes.size()});
    const auto again = parts_of(tensor.view().value());
    ASSERT_TRUE(again.has_value()) << to_string(again.error());
    EXPECT_EQ(*again, parts);
  }
}

TEST(SpanParts, HaveTheDocumentedByteLayout) {
  const Parts parts = {text({7, 8}), media(4, 0)};
  EXPECT_EQ(to_tensor(parts).bytes, written({kMagic, 1, 0, 2, 8, 7, 8, 1, 4, 0}));
}

TEST(SpanParts, LengthIsTheSumOfTheirTokens) {
  EXPECT_EQ(length_of(Parts{}), TokenCount(0));
  EXPECT_EQ(length_of(kTiles[1]), TokenCount(2));
  EXPECT_EQ(length_of(kTiles), TokenCount(4 + 2 + 6 + 1 + 1));
}

// Truncation between two parts leaves valid parts; callers detect it by the total length.
TEST(SpanParts, TruncationIsDetectedOrLeavesWholeParts) {
  const WrittenBytes whole = to_tensor(kTiles).bytes;
  std::size_t left_whole = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto parts =
        read(WrittenBytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    if (!parts.has_value()) {
      EXPECT_EQ(parts.error().code, ErrorCode::kCorruption) << size;
      continue;
    }
    ++left_whole;
    ASSERT_LT(parts->size(), kTiles.size());
    EXPECT_TRUE(std::equal(parts->begin(), parts->end(), kTiles.begin())) << size;
    EXPECT_LT(length_of(*parts), length_of(kTiles));
  }
  EXPECT_EQ(left_whole, kTiles.size() - 1);
}

TEST(SpanParts, RejectsInvalidBytes) {
  constexpr std::uint32_t kMost = 1U << 24U;
  const struct {
    const char* name;
    WrittenBytes bytes;
    bool good = false;
  } kCases[] = {
      {"nothing", {}},
      {"no parts", written({kMagic, 1})},
      {"another magic", written({kMagic + 1, 1, 1, 4, 0})},
      {"version 0", written({kMagic, 0, 1, 4, 0})},
      {"the next version", written({kMagic, 2, 1, 4, 0})},
      {"a third kind", written({kMagic, 1, 2, 1, 4, 9})},
      {"a picture", written({kMagic, 1, 1, 4, 0}), true},
      {"a picture of no tokens", written({kMagic, 1, 1, 0, 0})},
      {"a picture of the most tokens", written({kMagic, 1, 1, kMost, 0}), true},
      {"of more", written({kMagic, 1, 1, kMost + 1, 0})},
      {"of all there are", written({kMagic, 1, 1, UINT32_MAX, 0})},
      {"a description of a byte too many", written({kMagic, 1, 1, 4, 5, 0})},
      {"a description of all there are", written({kMagic, 1, 1, 4, UINT32_MAX, 0})},
      {"a word", written({kMagic, 1, 0, 1, 4, 9}), true},
      {"no words", written({kMagic, 1, 0, 0, 0})},
      {"two words and bytes of one", written({kMagic, 1, 0, 2, 4, 9})},
      {"a word and bytes of two", written({kMagic, 1, 0, 1, 8, 9, 9})},
      {"words beyond 32 bits of bytes", written({kMagic, 1, 0, 0x40000001, 4, 9})},
      {"a part, and a word that is none", written({kMagic, 1, 1, 4, 0, 1})},
  };
  for (const auto& c : kCases) {
    const auto parts = read(c.bytes);
    EXPECT_EQ(parts.has_value(), c.good) << c.name;
    if (!parts.has_value()) EXPECT_EQ(parts.error().code, ErrorCode::kCorruption) << c.name;
  }
}

TEST(SpanParts, RejectsOtherTensors) {
  const WrittenBytes good = to_tensor(kTiles).bytes;
  ASSERT_EQ(good.size() % 4, 0U);
  const std::pair<DType, Shape> kShapes[] = {{DType::kI8, {good.size()}},
                                             {DType::kU8, {1, good.size()}},
                                             {DType::kU8, {good.size(), 1}},
                                             {DType::kF32, {good.size() / 4}}};
  for (const auto& [dtype, shape] : kShapes) {
    const auto parts = parts_of(TensorView::over(dtype, shape, good).value());
    ASSERT_FALSE(parts.has_value()) << to_string(shape);
    EXPECT_EQ(parts.error().code, ErrorCode::kCorruption);
  }
}

TEST(SpanParts, AnyChangedByteGivesPartsOrAnError) {
  WrittenBytes bytes = to_tensor(kTiles).bytes;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int flip = 1; flip < 256; ++flip) {
      bytes[at] ^= std::byte(flip);
      if (const auto parts = read(bytes)) EXPECT_EQ(to_tensor(*parts).bytes, bytes) << at;
      bytes[at] ^= std::byte(flip);
    }
  }
}

}  // namespace
}  // namespace afterimage
