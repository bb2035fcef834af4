// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/self_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "engines/llama/llama_engine.h"
#include "engines/llama/testing/quantized_model.h"
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

/// 0 if the model is called exact, 1 if it is not, with numbers.
int exit_code_with_tiled_products(const std::string& type) {
  // As the operator may set it. The library reads it once, so this runs in a process of its own.
  ::setenv("GGML_CPU_TILED_MM", "1", 1);
  const auto engine = LlamaEngine::create(quantized_options(type)).value();
  const std::string text = engine->description();
  return !engine->exactness().exact && text.contains("not exact") && text.contains("KL divergence")
             ? 1
             : 0;
}

// Released as exact once: K-quants are multiplied in tiles from eight rows on, so 24 of 40 requests
// to a Q4_K_M model had other logits when they were resumed.
TEST(SelfCheckDeathTest, FindsAProductThatDependsOnTheBatch) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* type : {"Q4_K", "Q5_K", "Q6_K"}) {
    EXPECT_EXIT(std::_Exit(exit_code_with_tiled_products(type)), ::testing::ExitedWithCode(1), "")
        << type;
  }
  EXPECT_EXIT(std::_Exit(exit_code_with_tiled_products("Q8_0")), ::testing::ExitedWithCode(0), "");
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
  SelfCheck check{
      .tokens = 72, .batchings = 3, .same_batchings = 3, .positions = 12, .same_tokens = 12};
  EXPECT_EQ(to_string(check), "self-check: 72 tokens in 3 other batchings, every bit the same");
  check.same_batchings = 1;
  check.same_tokens = 11;
  check.max_divergence = 0.00012;
  EXPECT_EQ(to_string(check),
            "self-check: 72 tokens in 3 other batchings, 2 of them differ: the most likely token "
            "is the same at 11 of 12 positions, KL divergence at most 0.00012");
}

}  // namespace
}  // namespace afterimage
