// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/projected_embedder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace afterimage {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

/// The vector of a text: how many letters "a" it has, and how many "b".
class LettersEmbedder final : public Embedder {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t dimensions() const override { return 2; }
  [[nodiscard]] Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) override {
    std::vector<Vector> vectors;
    for (const EmbedInput& input : inputs) {
      const auto text = std::get<std::string_view>(input);
      const auto count = [&](char c) { return static_cast<float>(std::ranges::count(text, c)); };
      vectors.push_back({count('a'), count('b')});
    }
    return vectors;
  }

 private:
  std::string name_ = "letters";
};

Result<std::unique_ptr<Embedder>> projected(const std::vector<float>& matrix) {
  return ProjectedEmbedder::create(std::make_unique<LettersEmbedder>(),
                                   std::as_bytes(std::span(matrix)));
}

TEST(ProjectedEmbedder, EachRowHasWeightsAndWhatIsAdded) {
  const auto embedder = projected({0.0F, 2.0F, 0.0F,  //
                                   1.0F, 0.0F, 1.0F,  //
                                   0.0F, 0.0F, -1.0F})
                            .value();
  EXPECT_EQ(embedder->dimensions(), 3U);
  EXPECT_THAT(embedder->embed_one(std::string_view("ab")).value(),
              ElementsAre(FloatNear(2.0F / 3, 1e-6F), FloatNear(2.0F / 3, 1e-6F),
                          FloatNear(-1.0F / 3, 1e-6F)));
}

TEST(ProjectedEmbedder, AVectorWithoutFeaturesGetsNone) {
  const auto adds = projected({1.0F, 1.0F, 5.0F}).value();
  EXPECT_THAT(adds->embed_one(std::string_view("cd")).value(), ElementsAre(0.0F));
  const auto drops = projected({1.0F, -1.0F, 0.0F}).value();
  EXPECT_THAT(drops->embed_one(std::string_view("ab")).value(), ElementsAre(0.0F));
}

TEST(ProjectedEmbedder, AnotherMatrixIsAnotherName) {
  const std::string name = projected({1.0F, 1.0F, 0.0F}).value()->name();
  EXPECT_TRUE(name.starts_with("letters, projected by ")) << name;
  EXPECT_NE(projected({1.0F, 1.0F, 0.5F}).value()->name(), name);
}

TEST(ProjectedEmbedder, AMatrixThatDoesNotFitIsRefused) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& matrix : std::vector<std::vector<float>>{
           {}, {1.0F, 2.0F}, {1.0F, 2.0F, 3.0F, 4.0F}, {1.0F, kInfinity, 0.0F}}) {
    const auto refused = projected(matrix);
    ASSERT_FALSE(refused.has_value()) << matrix.size() << " numbers";
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace afterimage
