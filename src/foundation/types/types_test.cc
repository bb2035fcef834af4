// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <limits>

#include "afterimage/digest.h"
#include "afterimage/request.h"
#include "afterimage/sequence.h"
#include "afterimage/tensor.h"

namespace afterimage {
namespace {

TEST(Tensor, BytesOfAnyRankAreExact) {
  const struct {
    const char* name;
    DType dtype;
    Shape shape;
    std::uint64_t expected;
  } kCases[] = {
      {"scalar", DType::kF32, Shape{}, 4},
      {"empty", DType::kF32, Shape{0}, 0},
      {"empty with a huge extent", DType::kF64, Shape{0, 1ULL << 63U, 1ULL << 63U}, 0},
      {"rank 1", DType::kF16, Shape{7}, 14},
      {"rank 2", DType::kBF16, Shape{256, 128}, 65'536},
      {"rank 3", DType::kU8, Shape{2, 3, 5}, 30},
      {"rank 4, a video", DType::kF32, Shape{16, 16, 64, 64}, 4'194'304},
      {"rank 8", DType::kI16, Shape{2, 2, 2, 2, 2, 2, 2, 2}, 512},
  };
  for (const auto& c : kCases) {
    const auto bytes = tensor_bytes(c.dtype, c.shape);
    ASSERT_TRUE(bytes.has_value()) << c.name;
    EXPECT_EQ(bytes->value(), c.expected) << c.name;
  }
}

TEST(Tensor, ASizeThatDoesNotFitIsAnErrorAndNotASmallNumber) {
  EXPECT_EQ(tensor_bytes(DType::kF32, Shape{1ULL << 40U, 1ULL << 40U}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(tensor_bytes(DType::kF32, Shape{1ULL << 62U}).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(Tensor, AViewHasExactlyTheBytesOfItsShape) {
  const std::vector<std::byte> bytes(24);
  EXPECT_TRUE(TensorView::over(DType::kF32, Shape{2, 3}, bytes).has_value());
  for (const std::uint64_t rows : {1U, 3U}) {
    const auto view = TensorView::over(DType::kF32, Shape{rows, 3}, bytes);
    ASSERT_FALSE(view.has_value());
    EXPECT_NE(view.error().message.find("24"), std::string::npos) << view.error().message;
  }
}

TEST(Tensor, RankAboveEightIsRefused) {
  const std::vector<std::uint64_t> extents(9, 1);
  EXPECT_EQ(Shape::of(extents).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Shape::of(std::span(extents).first(8))->rank(), 8U);
}

TEST(DigestText, RoundTripsAndRefusesAnythingElse) {
  ContentDigest digest;
  for (std::size_t i = 0; i < kDigestBytes; ++i) digest.bytes[i] = static_cast<std::byte>(i * 8);
  EXPECT_EQ(ContentDigest::from_hex(digest.hex()).value(), digest);
  EXPECT_EQ(digest.hex().substr(0, 8), "00081018");
  for (const char* bad : {"", "00", "zz"}) EXPECT_FALSE(ContentDigest::from_hex(bad).has_value());
  std::string text = digest.hex();
  text[10] = 'g';
  EXPECT_FALSE(ContentDigest::from_hex(text).has_value());
}

TEST(Units, OverflowIsABrokenInvariant) {
  EXPECT_EQ((3_KiB - 1_KiB).value(), 2048U);
  EXPECT_DEATH(static_cast<void>(1_B - 2_B), "broken invariant");
  EXPECT_DEATH(static_cast<void>(TokenCount::max() + TokenCount(1)), "broken invariant");
}

TEST(Sequence, SpansAreInsideOrderedAndDisjoint) {
  const auto sequence = [](std::vector<MediaSpan> spans) {
    return Sequence{.tokens = std::vector<TokenId>(10), .spans = std::move(spans)};
  };
  const auto span = [](std::uint32_t offset, std::uint32_t length) {
    return MediaSpan{.offset = TokenCount(offset), .length = TokenCount(length)};
  };
  EXPECT_TRUE(check_sequence(sequence({})).has_value());
  EXPECT_TRUE(check_sequence(sequence({span(0, 4), span(4, 6)})).has_value());
  EXPECT_FALSE(check_sequence(sequence({span(2, 0)})).has_value()) << "empty";
  EXPECT_FALSE(check_sequence(sequence({span(8, 3)})).has_value()) << "beyond the sequence";
  EXPECT_FALSE(check_sequence(sequence({span(0, 4), span(3, 2)})).has_value()) << "overlap";
  EXPECT_FALSE(check_sequence(sequence({span(5, 2), span(0, 2)})).has_value()) << "order";
  EXPECT_FALSE(check_sequence(sequence({span(4'294'967'295U, 4'294'967'295U)})).has_value());
}

TEST(Errors, AreSpelledWithTheirCode) {
  EXPECT_EQ(to_string(Error{ErrorCode::kNoSpace, "the budget is 4 bytes"}),
            "no_space: the budget is 4 bytes");
}

}  // namespace
}  // namespace afterimage
