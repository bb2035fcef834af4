// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_kernels/library_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engines/llama_kernels/kernels.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace afterimage {
namespace {

using Context = std::unique_ptr<ggml_context, decltype(&ggml_free)>;
using Build = std::function<ggml_tensor*(ggml_context*)>;

/// Computes what `build` returns.
std::vector<float> compute(const Build& build, int threads) {
  const Context context(ggml_init({.mem_size = 64 << 20, .mem_buffer = nullptr, .no_alloc = false}),
                        &ggml_free);
  ggml_tensor* const result = build(context.get());
  ggml_cgraph* const graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, result);
  EXPECT_EQ(ggml_graph_compute_with_ctx(context.get(), graph, threads), GGML_STATUS_SUCCESS);
  const auto* const data = static_cast<const float*>(result->data);
  return {data, data + ggml_nelements(result)};
}

std::vector<float> numbers(unsigned seed, std::size_t count) {
  std::mt19937 chance(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> made(count);
  for (float& x : made) x = normal(chance);
  return made;
}

ggml_tensor* tensor(ggml_context* context, ggml_type type, std::vector<std::int64_t> shape,
                    unsigned seed) {
  ggml_tensor* const made =
      ggml_new_tensor(context, type, static_cast<int>(shape.size()), shape.data());
  const auto from = numbers(seed, static_cast<std::size_t>(ggml_nelements(made)));
  if (type == GGML_TYPE_F32) {
    std::memcpy(made->data, from.data(), ggml_nbytes(made));
  } else {
    ggml_quantize_chunk(type, from.data(), made->data, 0, ggml_nrows(made), made->ne[0], nullptr);
  }
  return made;
}

class LibraryKernels : public ::testing::Test {
 protected:
  LibraryKernels() {
    if (supported_llama_kernels().empty()) return;
    EXPECT_TRUE(use_batch_independent_kernels("").has_value());
  }
  void SetUp() override {
    if (supported_llama_kernels().empty()) GTEST_SKIP() << "no kernels for this processor";
  }
};

TEST_F(LibraryKernels, AProductOfAPartIsAPartOfTheProduct) {
  constexpr std::int64_t kInner = 256;
  constexpr std::int64_t kRows = 75;
  constexpr std::int64_t kColumns = 203;
  for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_MXFP4}) {
    const auto product = [&](std::int64_t first, std::int64_t count) {
      return [=](ggml_context* context) {
        ggml_tensor* const all = tensor(context, GGML_TYPE_F32, {kInner, kColumns}, 2);
        ggml_tensor* const part = ggml_view_2d(context, all, kInner, count, all->nb[1],
                                               static_cast<std::size_t>(first) * all->nb[1]);
        return ggml_mul_mat(context, tensor(context, type, {kInner, kRows}, 1), part);
      };
    };
    const auto whole = compute(product(0, kColumns), 1);
    for (const int threads : {2, 3, 8}) EXPECT_EQ(compute(product(0, kColumns), threads), whole);
    for (const std::int64_t c : {0, 100, 202}) {
      const auto alone = compute(product(c, 1), 2);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), whole.begin() + c * kRows))
          << ggml_type_name(type) << " column " << c;
    }
  }
}

// Heads that share keys, as in attention that is not fused.
TEST_F(LibraryKernels, MatricesAreSharedAsTheLibraryDoes) {
  const Build build = [](ggml_context* context) {
    return ggml_mul_mat(context, tensor(context, GGML_TYPE_F16, {48, 37, 2, 3}, 1),
                        tensor(context, GGML_TYPE_F32, {48, 5, 6, 3}, 2));
  };
  const auto ours = compute(build, 2);
  ASSERT_TRUE(use_batch_independent_kernels("library").has_value());
  const auto theirs = compute(build, 2);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 0.05);
}

// Mixtures of experts: each token has three of seven, some of which no token has.
TEST_F(LibraryKernels, AnExpertsProductIsThatOfItsMatrix) {
  constexpr std::int64_t kInner = 256;
  constexpr std::int64_t kRows = 75;
  constexpr std::int64_t kTokens = 50;
  constexpr std::int64_t kChosen = 3;
  const auto expert_of = [](std::int64_t token, std::int64_t place) {
    return static_cast<std::int32_t>((token * token + 2 * place) % 7);
  };
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_MXFP4, GGML_TYPE_Q4_K}) {
    for (const std::int64_t rows_of_token : {std::int64_t{1}, kChosen}) {
      const auto matrices = [=](ggml_context* context) {
        return tensor(context, type, {kInner, kRows, 7}, 1);
      };
      const auto activations = [=](ggml_context* context) {
        return tensor(context, GGML_TYPE_F32, {kInner, rows_of_token, kTokens}, 2);
      };
      const Build mixture = [&](ggml_context* context) {
        ggml_tensor* const ids = ggml_new_tensor_2d(context, GGML_TYPE_I32, kChosen, kTokens);
        for (std::int64_t i = 0; i < kChosen * kTokens; ++i) {
          static_cast<std::int32_t*>(ids->data)[i] = expert_of(i / kChosen, i % kChosen);
        }
        return ggml_mul_mat_id(context, matrices(context), activations(context), ids);
      };
      const auto all = compute(mixture, 3);
      ASSERT_EQ(all, compute(mixture, 1));
      for (const std::int64_t token : {0, 23, 49}) {
        for (std::int64_t place = 0; place < kChosen; ++place) {
          const auto alone = compute(
              [&](ggml_context* context) {
                ggml_tensor* const experts = matrices(context);
                ggml_tensor* const tokens = activations(context);
                return ggml_mul_mat(
                    context,
                    ggml_view_2d(
                        context, experts, kInner, kRows, experts->nb[1],
                        static_cast<std::size_t>(expert_of(token, place)) * experts->nb[2]),
                    ggml_view_2d(
                        context, tokens, kInner, 1, tokens->nb[1],
                        static_cast<std::size_t>(token) * tokens->nb[2] +
                            static_cast<std::size_t>(place % rows_of_token) * tokens->nb[1]));
              },
              1);
          EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                                 all.begin() + (token * kChosen + place) * kRows))
              << ggml_type_name(type) << " token " << token << ", expert " << place;
        }
      }
    }
  }
}

constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kKeys = 1500;
constexpr std::int64_t kHeads = 6;

/// Attention of tokens [first, first + count) of 40, of which the last sees all keys.
Build attention(ggml_type type, std::int64_t first, std::int64_t count, float soft_cap) {
  return [=](ggml_context* context) {
    constexpr std::int64_t kTokens = 40;
    ggml_tensor* const all = tensor(context, GGML_TYPE_F32, {kWidth, kTokens, kHeads}, 1);
    ggml_tensor* const queries =
        ggml_view_3d(context, all, kWidth, count, kHeads, all->nb[1], all->nb[2],
                     static_cast<std::size_t>(first) * all->nb[1]);
    ggml_tensor* const mask = ggml_new_tensor_2d(context, GGML_TYPE_F16, kKeys, count);
    auto* const masks = static_cast<ggml_fp16_t*>(mask->data);
    for (std::int64_t t = 0; t < count; ++t) {
      for (std::int64_t k = 0; k < kKeys; ++k) {
        const bool is_seen = k <= kKeys - kTokens + first + t;
        masks[t * kKeys + k] = ggml_fp32_to_fp16(is_seen ? 0 : -INFINITY);
      }
    }
    return ggml_flash_attn_ext(context, queries, tensor(context, type, {kWidth, kKeys, 2}, 2),
                               tensor(context, type, {kWidth, kKeys, 2}, 3), mask, 0.125F, 0,
                               soft_cap);
  };
}

TEST_F(LibraryKernels, AttentionOfATokenIsTheSameInEveryBatch) {
  for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_BF16}) {
    const auto whole = compute(attention(type, 0, 40, 0), 1);
    // With eight threads keys are divided among them.
    for (const int threads : {2, 8}) EXPECT_EQ(compute(attention(type, 0, 40, 0), threads), whole);
    for (const std::int64_t token : {0, 17, 39}) {
      const auto alone = compute(attention(type, token, 1, 0), 8);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), whole.begin() + token * kWidth * kHeads))
          << ggml_type_name(type) << " token " << token;
    }
  }
}

/// Rows of all positions, as a ring of `cells` has them when `end` of them were written, the first
/// of all to cell `first`.
ggml_tensor* in_ring(ggml_context* context, ggml_tensor* all, std::int64_t cells,
                     std::int64_t first, std::int64_t end) {
  ggml_tensor* const ring = ggml_new_tensor_3d(context, all->type, kWidth, cells, all->ne[2]);
  std::memset(ring->data, 0, ggml_nbytes(ring));
  for (std::int64_t head = 0; head < all->ne[2]; ++head) {
    for (std::int64_t position = 0; position < end; ++position) {
      const auto from = static_cast<std::size_t>(head) * all->nb[2] +
                        static_cast<std::size_t>(position) * all->nb[1];
      const auto to = static_cast<std::size_t>(head) * ring->nb[2] +
                      static_cast<std::size_t>((first + position) % cells) * ring->nb[1];
      std::memcpy(static_cast<char*>(ring->data) + to, static_cast<char*>(all->data) + from,
                  all->nb[1]);
    }
  }
  return ring;
}

/// Attention of tokens [first, first + count) of kKeys to the 200 keys before each and its own. No
/// ring: every key has a cell of its own.
Build window_attention(std::int64_t first, std::int64_t count, std::int64_t cells,
                       std::int64_t first_cell) {
  return [=](ggml_context* context) {
    ggml_tensor* const all = tensor(context, GGML_TYPE_F32, {kWidth, kKeys, kHeads}, 1);
    ggml_tensor* const queries =
        ggml_view_3d(context, all, kWidth, count, kHeads, all->nb[1], all->nb[2],
                     static_cast<std::size_t>(first) * all->nb[1]);
    const auto cache = [&](unsigned seed) {
      return in_ring(context, tensor(context, GGML_TYPE_F16, {kWidth, kKeys, 2}, seed), cells,
                     first_cell, first + count);
    };
    ggml_tensor* const mask = ggml_new_tensor_2d(context, GGML_TYPE_F16, cells, count);
    auto* const masks = static_cast<ggml_fp16_t*>(mask->data);
    for (std::int64_t t = 0; t < count; ++t) {
      for (std::int64_t c = 0; c < cells; ++c) {
        masks[t * cells + c] = ggml_fp32_to_fp16(-INFINITY);
      }
      for (std::int64_t p = std::max<std::int64_t>(0, first + t - 200); p <= first + t; ++p) {
        masks[t * cells + (first_cell + p) % cells] = ggml_fp32_to_fp16(0);
      }
    }
    return ggml_flash_attn_ext(context, queries, cache(2), cache(3), mask, 0.125F, 0, 0);
  };
}

// A prompt of any length, resumed anywhere: the ring begins elsewhere, the sums do not.
TEST_F(LibraryKernels, AWindowInARingHasTheSumsOfOneInOrder) {
  constexpr std::int64_t kFirst = 700;
  constexpr std::int64_t kCount = 500;
  constexpr std::int64_t kOfAToken = kWidth * kHeads;
  const auto whole = compute(window_attention(kFirst, kCount, kKeys, 0), 2);
  for (const std::int64_t cells : {768, 1024}) {
    for (const std::int64_t first_cell : {0, 512}) {
      for (const auto& [first, count] : {std::pair{kFirst, kCount},
                                         {kFirst, std::int64_t{1}},
                                         {kFirst + 1, std::int64_t{7}},
                                         {kFirst + 320, std::int64_t{180}},
                                         {kFirst + 499, std::int64_t{1}}}) {
        const int threads = count < 10 ? 8 : 2;  // eight: keys are divided among them
        const auto part = compute(window_attention(first, count, cells, first_cell), threads);
        EXPECT_TRUE(
            std::equal(part.begin(), part.end(), whole.begin() + (first - kFirst) * kOfAToken))
            << count << " tokens from " << first << ", " << cells << " cells, the first in "
            << first_cell;
      }
    }
  }
}

TEST_F(LibraryKernels, AttentionIsThatOfTheLibrary) {
  for (const float soft_cap : {0.0F, 2.0F}) {
    ASSERT_TRUE(use_batch_independent_kernels("").has_value());
    const auto ours = compute(attention(GGML_TYPE_F16, 0, 40, soft_cap), 2);
    ASSERT_TRUE(use_batch_independent_kernels("library").has_value());
    const auto theirs = compute(attention(GGML_TYPE_F16, 0, 40, soft_cap), 2);
    // The library adds values as 16-bit floats.
    for (std::size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], theirs[i], 5e-3);
  }
}

TEST_F(LibraryKernels, ATableThatTheProcessorLacksIsNamed) {
  const auto used = use_batch_independent_kernels("mips");
  ASSERT_FALSE(used.has_value());
  EXPECT_EQ(used.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(used.error().message.find("\"mips\""), std::string::npos);
  EXPECT_EQ(batch_independent_kernels(), supported_llama_kernels().front()->name);
}

}  // namespace
}  // namespace afterimage
