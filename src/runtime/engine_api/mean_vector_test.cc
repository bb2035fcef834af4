// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/engine_api/mean_vector.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace afterimage {
namespace {

TEST(MeanVector, HasLengthOneAndTheDirectionOfTheSum) {
  MeanVector mean;
  mean.add(std::array{1.0F, 0.0F});
  mean.add(std::array{5.0F, 8.0F});
  EXPECT_EQ(mean.finish(), (std::vector{0.6F, 0.8F}));
}

TEST(MeanVector, IsEmptyWithoutADirection) {
  EXPECT_TRUE(MeanVector().finish().empty());
  MeanVector opposite;
  opposite.add(std::array{1.0F});
  opposite.add(std::array{-1.0F});
  EXPECT_TRUE(opposite.finish().empty());
  MeanVector infinite;
  infinite.add(std::array{std::numeric_limits<float>::infinity()});
  EXPECT_TRUE(infinite.finish().empty());
}

}  // namespace
}  // namespace afterimage
