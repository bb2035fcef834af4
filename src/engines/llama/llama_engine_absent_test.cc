// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include "engines/llama/llama_engine.h"

namespace afterimage {
namespace {

// That it links is half of the test: a build without the library is what a newcomer makes first.
TEST(LlamaEngineAbsent, SaysHowToGetIt) {
  const auto engine = LlamaEngine::create({.model = "model.gguf"});
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(engine.error().message.contains("scripts/build-llama.sh"));
}

}  // namespace
}  // namespace afterimage
