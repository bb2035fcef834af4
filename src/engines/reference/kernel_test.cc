// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engines/reference/matrix.h"
#include "engines/reference/testing/same_bits.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using testing::for_each_seed;

Matrix random_matrix(std::size_t rows, std::size_t columns, Rng& rng) {
  Matrix matrix(rows, columns);
  const Floats numbers = random_floats(rows * columns, -1.0F, 1.0F, rng);
  std::copy(numbers.begin(), numbers.end(), matrix.row(0));
  return matrix;
}

std::vector<const Kernels*> fused_kernels() {
  std::vector<const Kernels*> fused;
  for (const Kernels* kernels : supported_kernels()) {
    if (kernels->fused) fused.push_back(kernels);
  }
  return fused;
}

TEST(Kernels, ProductAgreesWithSumsInDouble) {
  const struct {
    const char* name;
    std::size_t rows, inner, columns;
  } kCases[] = {
      {"one element", 1, 1, 1},
      {"one row", 1, 64, 32},
      {"one column", 9, 40, 1},
      {"just over a panel", 3, 7, 33},
      {"a tile and a bit", 13, 100, 64},
      {"no panel is whole", 8, 5, 31},
      {"many", 37, 129, 96},
  };
  for (const Kernels* kernels : supported_kernels()) {
    for (const auto& c : kCases) {
      Rng rng(1);
      const Matrix a = random_matrix(c.rows, c.inner, rng);
      const Matrix b = random_matrix(c.inner, c.columns, rng);
      const Matrix out = PackedWeights(c.inner, c.columns, b.all()).times(a, *kernels);
      for (std::size_t i = 0; i < c.rows; ++i) {
        for (std::size_t j = 0; j < c.columns; ++j) {
          double sum = 0;
          for (std::size_t k = 0; k < c.inner; ++k) {
            sum += static_cast<double>(a.row(i)[k]) * static_cast<double>(b.row(k)[j]);
          }
          ASSERT_NEAR(out.row(i)[j], sum, 1e-5) << kernels->name << ": " << c.name;
        }
      }
    }
  }
}

// The sum as documented in the header, one step at a time.
TEST(Kernels, ProductIsOneAccumulatorInOrderOfK) {
  Rng rng(3);
  const Matrix a = random_matrix(11, 77, rng);
  const Matrix b = random_matrix(77, 45, rng);
  for (const Kernels* kernels : supported_kernels()) {
    Matrix expected(11, 45);
    for (std::size_t i = 0; i < 11; ++i) {
      for (std::size_t j = 0; j < 45; ++j) {
        float sum = 0;
        for (std::size_t k = 0; k < 77; ++k) {
          const float product = a.row(i)[k] * b.row(k)[j];
          sum = kernels->fused ? std::fma(a.row(i)[k], b.row(k)[j], sum) : sum + product;
        }
        expected.row(i)[j] = sum;
      }
    }
    EXPECT_TRUE(same_bits(PackedWeights(77, 45, b.all()).times(a, *kernels), expected))
        << kernels->name;
  }
}

TEST(KernelsProperty, ARowsProductDoesNotDependOnTheRowsAroundIt) {
  for_each_seed(40, [](Rng& rng) {
    const std::size_t rows = 1 + rng.below(40);
    const std::size_t inner = 1 + rng.below(150);
    const std::size_t columns = 1 + rng.below(100);
    const Matrix a = random_matrix(rows, inner, rng);
    const PackedWeights weights = PackedWeights::random(inner, columns, rng);
    for (const Kernels* kernels : supported_kernels()) {
      const Matrix whole = weights.times(a, *kernels);
      Matrix pieces(rows, columns);
      for (std::size_t first = 0; first < rows;) {
        const std::size_t count = 1 + rng.below(rows - first);
        Matrix piece(count, inner);
        std::copy_n(a.row(first), count * inner, piece.row(0));
        const Matrix out = weights.times(piece, *kernels);
        std::copy_n(out.row(0), count * columns, pieces.row(first));
        first += count;
      }
      ASSERT_TRUE(same_bits(whole, pieces)) << kernels->name;
    }
  });
}

TEST(KernelsProperty, AllFusedKernelsGiveTheSameBits) {
  const auto fused = fused_kernels();
  if (fused.size() < 2) GTEST_SKIP() << "this machine has " << fused.size() << " fused kernels";
  for_each_seed(40, [&fused](Rng& rng) {
    const std::size_t n = 16 * (1 + rng.below(20));
    const Matrix rows = random_matrix(5, n, rng);
    const PackedWeights weights = PackedWeights::random(n, 70, rng);
    const Floats gain = random_floats(n, 0.5F, 1.5F, rng);
    const std::size_t seen = 1 + rng.below(n);
    const auto all = [&](const Kernels& kernels) {
      std::vector<Matrix> results{weights.times(rows, kernels), normalized(rows, gain, kernels)};
      Matrix& silu = results.emplace_back(rows);
      kernels.silu(silu.row(0), n);
      Matrix& softmax = results.emplace_back(rows);
      kernels.softmax(softmax.row(0), seen);
      Matrix& recurrent = results.emplace_back(rows);
      const float* any = rows.row(1);
      kernels.recurrent_step({.width = n,
                              .input = {any, rows.row(2), rows.row(3), any},
                              .conv = {gain.data(), any, gain.data(), any},
                              .forget_scale = any,
                              .forget_bias = gain.data(),
                              .admit_scale = gain.data(),
                              .admit_bias = any,
                              .decay = rows.row(4),
                              .state = recurrent.row(0),
                              .out = recurrent.row(1)});
      return results;
    };
    const auto expected = all(*fused.front());
    for (const Kernels* kernels : fused) {
      const auto found = all(*kernels);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_TRUE(same_bits(expected[i], found[i])) << kernels->name << ", result " << i;
      }
    }
  });
}

TEST(Kernels, ExpIsCloseEverywhereAndNeverZeroOrInfinite) {
  for (const Kernels* kernels : supported_kernels()) {
    for (int i = -8700; i <= 8800; i += 7) {
      const float x = static_cast<float>(i) / 100.0F;
      const double exact = std::exp(static_cast<double>(x));
      ASSERT_NEAR(kernels->exp(x) / exact, 1.0, 3e-7) << kernels->name << " at " << x;
    }
    EXPECT_EQ(kernels->exp(0.0F), 1.0F);
    EXPECT_GT(kernels->exp(-1e30F), 0.0F);
    EXPECT_LT(kernels->exp(1e30F), std::numeric_limits<float>::infinity());
  }
}

TEST(Kernels, SoftmaxOfAnyLengthSumsToOne) {
  for (const Kernels* kernels : supported_kernels()) {
    for (const std::size_t n : {1U, 2U, 15U, 16U, 17U, 33U, 500U}) {
      Rng rng(n);
      Floats row = random_floats((n + 15) / 16 * 16, -20.0F, 20.0F, rng);
      Floats expected(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(n));
      double sum = 0;
      for (const float x : expected) sum += std::exp(static_cast<double>(x));
      kernels->softmax(row.data(), n);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_NEAR(row[i], std::exp(static_cast<double>(expected[i])) / sum, 1e-6)
            << kernels->name << ", " << i << " of " << n;
      }
    }
  }
}

TEST(Kernels, AreSelectedByNameOrBySpeed) {
  EXPECT_EQ(kernels_named("").value(), supported_kernels().front());
  EXPECT_STREQ(kernels_named("baseline").value()->name, "baseline");
  const auto unknown = kernels_named("abacus");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(unknown.error().message.find("baseline"), std::string::npos);
}

}  // namespace
}  // namespace afterimage
