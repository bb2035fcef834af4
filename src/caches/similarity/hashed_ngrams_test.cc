// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/hashed_ngrams.h"

#include <gtest/gtest.h>

#include "caches/similarity/dot.h"

namespace afterimage {
namespace {

float similarity(std::string_view a, std::string_view b) {
  auto embedder = HashedNgrams::create().value();
  const Vector x = embedder.embed_one(a).value();
  const Vector y = embedder.embed_one(b).value();
  return dot_product()(x.data(), y.data(), x.size());
}

TEST(HashedNgrams, VectorsHaveLengthOneAndAreTheSameEveryTime) {
  EXPECT_NEAR(similarity("What colour is the car?", "What colour is the car?"), 1.0F, 1e-5F);
}

// Golden values of the first version: a change needs a new name.
TEST(HashedNgrams, ValuesAreFixedPerName) {
  auto embedder = HashedNgrams::create(16).value();
  EXPECT_EQ(embedder.name(), "hashed-ngrams-1/16");
  const Vector vector = embedder.embed_one("a red car").value();
  const std::vector<float> expected = {-0.744845F, 0.082761F, 0.165521F,  0,         0.082761F,  0,
                                       0.082761F,  0.165521F, -0.082761F, 0.082761F, -0.082761F, 0,
                                       -0.579324F, 0,         0.082761F,  -0.082761F};
  ASSERT_EQ(vector.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(vector[i], expected[i], 1e-5F) << i;
}

TEST(HashedNgrams, RewordingsAreMoreSimilarThanOtherQuestions) {
  const float reworded =
      similarity("What is the colour of the car?", "What colour does the car have?");
  EXPECT_GT(reworded, 0.5F);
  EXPECT_GT(reworded, similarity("What is the colour of the car?", "How many people are there?"));
}

// Why the embedder only proposes candidates.
TEST(HashedNgrams, OppositesAreSimilarToo) {
  EXPECT_GT(similarity("How do I turn on dark mode?", "How do I turn off dark mode?"), 0.7F);
}

TEST(HashedNgrams, OrderAndSymbolsMakeADifference) {
  EXPECT_LT(similarity("dog bites man", "man bites dog"), 0.95F);
  EXPECT_LT(similarity("learn C", "learn C++"), 0.95F);
  EXPECT_LT(similarity("猫はどこ", "犬はどこ"), 0.95F);
}

TEST(HashedNgrams, AnEmptyTextMatchesNothing) {
  EXPECT_EQ(similarity("", ""), 0.0F);
  EXPECT_EQ(similarity("?!", "?!"), 0.0F);
}

TEST(HashedNgrams, RejectsUnsupportedInput) {
  EXPECT_EQ(HashedNgrams::create(15).error().code, ErrorCode::kInvalidArgument);
  auto embedder = HashedNgrams::create().value();
  EXPECT_EQ(embedder.embed_one(std::span<const std::byte>()).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace afterimage
