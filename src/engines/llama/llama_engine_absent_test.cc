// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include "engines/llama/llama_engine.h"

namespace afterimage {
namespace {

// Linking is half of the test: a first build usually lacks the library.
TEST(LlamaEngineAbsent, TellsHowToGetLlamaCpp) {
  const auto engine = LlamaEngine::create({.model = "model.gguf"});
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(engine.error().message.contains("pip install 'afterimage[llama]'"));
  EXPECT_TRUE(engine.error().message.contains("scripts/build-llama.sh"));
}

}  // namespace
}  // namespace afterimage
