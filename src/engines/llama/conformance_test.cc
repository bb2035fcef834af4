// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <map>
#include <memory>

#include "conformance/engine_conformance.h"
#include "engines/llama/llama_engine.h"
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

INSTANTIATE_TEST_SUITE_P(Llama, EngineConformance,
                         ::testing::Values(demo("plain"), restoring("plain"), demo("dense"),
                                           restoring("dense"), demo("sliding"), demo("hybrid"),
                                           demo("shortconv")),
                         name_of);

}  // namespace
}  // namespace afterimage::testing
