// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/self_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "engines/llama/llama_engine.h"
#include "engines/llama/testing/quantized_model.h"
#include "engines/llama_kernels/kernels.h"
#include "engines/llama_kernels/library_kernels.h"
#include "testing/demo_models.h"

namespace afterimage {
namespace {

using ::testing::HasSubstr;
using testing::quantized_options;

TEST(SelfCheck, PassesForEveryWeightTypeAndNamesIt) {
  for (const std::string& type : testing::kWeightTypes) {
    const auto engine = LlamaEngine::create(quantized_options(type));
    ASSERT_TRUE(engine.has_value()) << type << ": " << to_string(engine.error());
    EXPECT_TRUE((*engine)->exactness().exact) << (*engine)->description();
    std::string name = type;
    for (char& c : name) c = static_cast<char>(c == 'K' ? c : std::tolower(c));
    EXPECT_THAT((*engine)->description(), HasSubstr(name));
    EXPECT_THAT((*engine)->description(), HasSubstr("resumed runs are exact (self-check"));
  }
}

/// 1 if a model is not called exact, with numbers, 0 otherwise.
int exit_code_of(const LlamaOptions& options) {
  const auto engine = LlamaEngine::create(options).value();
  const std::string text = engine->description();
  return !engine->exactness().exact && text.contains("not exact") && text.contains("KL divergence")
             ? 1
             : 0;
}

// Released as exact once: llama.cpp multiplies K-quants in tiles from eight rows on, so 24 of 40
// requests to a Q4_K_M model had other logits when they were resumed.
TEST(SelfCheckDeathTest, FindsAProductThatDependsOnTheBatch) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The library reads its environment once, so each runs in a process of its own.
  const auto with_tiled_products = [](const std::string& type, const std::string& kernels) {
    ::setenv("GGML_CPU_TILED_MM", "1", 1);  // as the operator may set it
    LlamaOptions options = quantized_options(type);
    options.kernels = kernels;
    return exit_code_of(options);
  };
  for (const char* type : {"Q4_K", "Q5_K", "Q6_K"}) {
    EXPECT_EXIT(std::_Exit(with_tiled_products(type, "library")), ::testing::ExitedWithCode(1), "")
        << type;
    const int expected = supported_llama_kernels().empty() ? 1 : 0;
    EXPECT_EXIT(std::_Exit(with_tiled_products(type, "")), ::testing::ExitedWithCode(expected), "")
        << type;
  }
}

/// Our products, but for so many columns in another order: from the end of a row.
template <std::size_t kFewest, std::size_t kMost>
void multiply_backwards(const WeightRows& weights, std::size_t rows, const ProductColumns& columns,
                        std::byte* scratch) {
  supported_llama_kernels().front()->multiply(weights, rows, columns, scratch);
  if (columns.count < kFewest || columns.count > kMost || weights.type != WeightType::kF32) return;
  for (std::size_t c = 0; c < columns.count; ++c) {
    const auto* const activations =
        reinterpret_cast<const float*>(columns.packed + c * columns.packed_bytes);
    for (std::size_t r = 0; r < rows; ++r) {
      const auto* const row = reinterpret_cast<const float*>(weights.data + r * weights.row_bytes);
      float sum = 0;
      for (std::size_t i = weights.inner; i-- > 0;) sum += row[i] * activations[i];
      columns.out[c * columns.out_stride + r] = sum;
    }
  }
}

TEST(SelfCheckDeathTest, FindsAKernelThatSumsInAnotherOrder) {
  if (supported_llama_kernels().empty()) GTEST_SKIP() << "no kernels for this processor";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto with_planted_kernel = [](auto multiply) {
    const LlamaOptions options = quantized_options("F32");
    if (exit_code_of(options) != 0) return 2;  // this starts the library
    LlamaKernels planted = *supported_llama_kernels().front();
    planted.multiply = multiply;
    use_kernels(&planted);
    return exit_code_of(options);
  };
  EXPECT_EXIT(std::_Exit(with_planted_kernel(multiply_backwards<8, SIZE_MAX>)),
              ::testing::ExitedWithCode(1), "");
  // A batch of two rows is one of the other sequence's, too: that must not be taken for the cause.
  EXPECT_EXIT(std::_Exit(with_planted_kernel(multiply_backwards<2, 2>)),
              ::testing::ExitedWithCode(1), "");
}

TEST(SelfCheck, PassesForTrainedWeights) {
  if (!testing::has_trained_model()) GTEST_SKIP() << "scripts/fetch-models.py build/models";
  const auto engine = LlamaEngine::create(testing::trained_options()).value();
  EXPECT_TRUE(engine->exactness().exact) << engine->description();
  EXPECT_THAT(engine->description(), HasSubstr("weights f32, q4_K, q5_0, q6_K, q8_0"));
}

TEST(SelfCheck, AFastModelIsNeverCalledExact) {
  LlamaOptions options = quantized_options("F16");
  options.exact = false;
  const auto engine = LlamaEngine::create(std::move(options)).value();
  EXPECT_FALSE(engine->exactness().exact);
  EXPECT_THAT(engine->description(), HasSubstr("resumed runs are not exact"));
}

TEST(SelfCheck, SaysHowMuchDiffers) {
  SelfCheck check{.tokens = 66, .again = 5, .batches = 3, .positions = 12, .same_tokens = 12};
  EXPECT_EQ(to_string(check),
            "self-check: 66 tokens at once, 5 of them in 3 batches, every bit the same");
  check.same_beside_others = false;
  EXPECT_THAT(to_string(check), HasSubstr("same; answers are computed one at a time"));
  check.same = false;
  check.same_tokens = 11;
  check.max_divergence = 0.00012;
  EXPECT_EQ(to_string(check),
            "self-check: 66 tokens at once, 5 of them in 3 batches, which differ: the most likely "
            "token is "
            "the same at 11 of 12 positions, KL divergence at most 0.00012");
}

}  // namespace
}  // namespace afterimage
