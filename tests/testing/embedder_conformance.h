// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "caches/similarity/embedder.h"

/// What every Embedder guarantees. To run the suite on your own implementation:
///
///   const EmbedderFactory kMine{"mine", [] { return make_mine(); }, {"a red car", "two dogs"}};
///   INSTANTIATE_TEST_SUITE_P(Mine, EmbedderConformance, ::testing::Values(kMine));
namespace afterimage::testing {

struct EmbedderFactory {
  std::string name;
  std::function<std::unique_ptr<Embedder>()> make;
  /// At least two inputs of the supported kind with different features: texts, or image files.
  std::vector<std::string> contents;
  bool takes_images = false;
};

class EmbedderConformance : public ::testing::TestWithParam<EmbedderFactory> {
 protected:
  [[nodiscard]] static EmbedInput input(const std::string& content) {
    if (!GetParam().takes_images) return std::string_view(content);
    return std::as_bytes(std::span(content));
  }
  [[nodiscard]] static std::vector<EmbedInput> inputs() {
    std::vector<EmbedInput> all;
    for (const std::string& content : GetParam().contents) all.push_back(input(content));
    return all;
  }
};

TEST_P(EmbedderConformance, VectorsHaveTheDimensionsAndLengthOne) {
  const auto embedder = GetParam().make();
  EXPECT_GT(embedder->dimensions(), 0U);
  const auto vectors = embedder->embed(inputs());
  ASSERT_TRUE(vectors.has_value()) << to_string(vectors.error());
  ASSERT_EQ(vectors->size(), GetParam().contents.size());
  for (const Vector& vector : *vectors) {
    ASSERT_EQ(vector.size(), embedder->dimensions());
    double squares = 0;
    for (const float value : vector) squares += static_cast<double>(value) * value;
    EXPECT_NEAR(std::sqrt(squares), 1.0, 1e-4);
  }
}

TEST_P(EmbedderConformance, AVectorDependsOnItsInputAlone) {
  const auto embedder = GetParam().make();
  const auto together = embedder->embed(inputs());
  ASSERT_TRUE(together.has_value()) << to_string(together.error());
  for (std::size_t i = together->size(); i-- > 0;) {
    EXPECT_EQ(embedder->embed_one(inputs()[i]).value(), (*together)[i]) << "input " << i;
  }
}

TEST_P(EmbedderConformance, AnotherObjectOfTheSameNameAgrees) {
  const auto one = GetParam().make();
  const auto other = GetParam().make();
  ASSERT_EQ(one->name(), other->name());
  EXPECT_FALSE(one->name().empty());
  EXPECT_EQ(one->embed(inputs()).value(), other->embed(inputs()).value());
}

TEST_P(EmbedderConformance, OtherContentHasAnotherVector) {
  const auto vectors = GetParam().make()->embed(inputs()).value();
  ASSERT_GE(vectors.size(), 2U);
  EXPECT_NE(vectors[0], vectors[1]);
}

TEST_P(EmbedderConformance, NoInputsHaveNoVectors) {
  const auto vectors = GetParam().make()->embed({});
  ASSERT_TRUE(vectors.has_value()) << to_string(vectors.error());
  EXPECT_TRUE(vectors->empty());
}

/// Texts are not guessed to be images, nor images to be texts.
TEST_P(EmbedderConformance, RefusesInputOfTheOtherKind) {
  const std::string bytes = "\x89PNG\r\n";
  const EmbedInput other = GetParam().takes_images ? EmbedInput(std::string_view("a red car"))
                                                   : EmbedInput(std::as_bytes(std::span(bytes)));
  const auto refused = GetParam().make()->embed_one(other);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(refused.error().message.empty());
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EmbedderConformance);

}  // namespace afterimage::testing
