// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/dot.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing/seeds.h"

namespace afterimage {
namespace {

std::vector<float> random_row(Rng& rng, std::size_t length) {
  std::vector<float> row(length);
  for (float& x : row) x = static_cast<float>(2.0 * rng.uniform() - 1.0);
  return row;
}

// Every length up to several blocks of every width: SIMD loops fail at remainders.
TEST(DotProduct, AgreesWithADoublePrecisionSumAtEveryLength) {
  testing::for_each_seed(3, [](Rng& rng) {
    for (std::size_t length = 0; length <= 300; ++length) {
      const std::vector<float> a = random_row(rng, length);
      const std::vector<float> b = random_row(rng, length);
      double expected = 0.0;
      for (std::size_t i = 0; i < length; ++i) expected += double{a[i]} * double{b[i]};
      ASSERT_NEAR(dot_product()(a.data(), b.data(), length), expected, 1e-4) << length;
      ASSERT_NEAR(plain_dot_product(a.data(), b.data(), length), expected, 1e-4) << length;
    }
  });
}

TEST(Normalize, ScalesToLengthOneAndKeepsZero) {
  std::vector<float> vector{3.0F, 4.0F};
  normalize(vector);
  EXPECT_FLOAT_EQ(vector[0], 0.6F);
  EXPECT_FLOAT_EQ(vector[1], 0.8F);
  std::vector<float> zero(4, 0.0F);
  normalize(zero);
  EXPECT_EQ(zero, std::vector<float>(4, 0.0F));
  std::vector<float> tiny{1e-30F, 0.0F};  // its square underflows
  normalize(tiny);
  EXPECT_FLOAT_EQ(tiny[0], 1.0F);
}

}  // namespace
}  // namespace afterimage
