// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <map>
#include <memory>

#include "conformance/engine_conformance.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/testing/quantized_model.h"
#include "testing/demo_models.h"
#include "testing/forgetful_engine.h"

namespace afterimage::testing {
namespace {

const Engine& demo_engine(const std::string& name, const std::string& keys = "f16") {
  static std::map<std::string, std::unique_ptr<LlamaEngine>> engines;
  auto& engine = engines[name + keys];
  if (engine == nullptr) {
    LlamaOptions options = demo_options(name);
    options.keys = keys;
    engine = LlamaEngine::create(std::move(options)).value();
  }
  return *engine;
}

/// An engine with one lane that holds no rows of the previous run when a run is resumed.
const Engine& restoring_engine(const std::string& name) {
  static std::map<std::string, std::unique_ptr<const Engine>> engines;
  auto& engine = engines[name];
  if (engine == nullptr) {
    LlamaOptions options = demo_options(name);
    options.lanes = 1;
    engine = std::make_unique<ForgetfulEngine>(LlamaEngine::create(std::move(options)).value());
  }
  return *engine;
}

/// Always restores captured KV; never reuses rows held by a lane.
EngineUnderTest restoring(const std::string& name) {
  return {.name = name + "_restored",
          .engine = [=]() -> const Engine& { return restoring_engine(name); },
          .strangers = [=] { return std::vector{&demo_engine(name, "f32")}; },
          .random_prompts = 25};
}

EngineUnderTest demo(const std::string& name) {
  return {.name = name,
          .engine = [=]() -> const Engine& { return demo_engine(name); },
          .strangers =
              [=] { return std::vector{&demo_engine(name, "f32"), &demo_engine(name, "bf16")}; },
          .random_prompts = 25};
}

/// The wide model with its weights converted to one type.
EngineUnderTest with_weights(const std::string& type) {
  const auto engine = [=]() -> const Engine& {
    static std::map<std::string, std::unique_ptr<LlamaEngine>> engines;
    auto& one = engines[type];
    if (one == nullptr) one = LlamaEngine::create(quantized_options(type)).value();
    EXPECT_TRUE(one->exactness().exact) << one->description();
    return *one;
  };
  return {.name = "weights_" + type,
          .engine = engine,
          .strangers = [] { return std::vector{&demo_engine("plain")}; },
          .random_prompts = 1,
          .point_stride = 13};
}

std::vector<EngineUnderTest> all_weight_types() {
  std::vector<EngineUnderTest> all;
  for (const std::string& type : kWeightTypes) all.push_back(with_weights(type));
  return all;
}

// These are the types that published models have; of each, rows must not depend on the batch.
INSTANTIATE_TEST_SUITE_P(Weights, EngineConformance, ::testing::ValuesIn(all_weight_types()),
                         name_of);

/// Trained weights: Gemma 3 270M in Q4_K_M, with sliding windows; scripts/fetch-models.py.
std::vector<EngineUnderTest> trained() {
  if (!has_trained_model()) return {};
  const auto engine = []() -> const Engine& {
    static const auto one = LlamaEngine::create(trained_options()).value();
    EXPECT_TRUE(one->exactness().exact) << one->description();
    return *one;
  };
  return {{.name = "gemma3_270m_Q4_K_M",
           .engine = engine,
           .strangers = [] { return std::vector{&demo_engine("sliding")}; },
           .random_prompts = 1,
           .point_stride = 149}};
}
INSTANTIATE_TEST_SUITE_P(Trained, EngineConformance, ::testing::ValuesIn(trained()), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EngineConformance);

INSTANTIATE_TEST_SUITE_P(Llama, EngineConformance,
                         ::testing::Values(demo("plain"), restoring("plain"), demo("dense"),
                                           restoring("dense"), demo("sliding"), demo("hybrid"),
                                           demo("shortconv"), demo("hearing")),
                         name_of);

}  // namespace
}  // namespace afterimage::testing
