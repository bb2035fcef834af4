// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/llama_verifier.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "engines/llama/llama_embedder.h"

namespace afterimage {
namespace {

const std::string kModels = AFTERIMAGE_DEMO_MODELS;

/// On any machine: a model with random weights.
TEST(LlamaVerifier, AScoreDependsOnBothTextsAndNothingElse) {
  const auto verifier = make_llama_verifier(kModels + "/scores.gguf", 1).value();
  EXPECT_TRUE(verifier->name().starts_with("gguf/"));
  const std::array<std::string_view, 3> stored{"a green stone bird", "the red lamp on the river",
                                               "a green stone bird"};
  const auto scores = verifier->score("the red lamp", stored).value();
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_EQ(scores[0], scores[2]) << "beside another text";
  EXPECT_NE(scores[0], scores[1]);
  EXPECT_NE(verifier->score("a bird", stored).value()[0], scores[0]);
  EXPECT_TRUE(verifier->score("the red lamp", {}).value().empty());
}

TEST(LlamaVerifier, TextsThatDoNotFitGetNoScore) {
  const auto verifier = make_llama_verifier(kModels + "/scores.gguf", 1).value();
  std::string text;
  for (int i = 0; i < 600; ++i) text += "the river ";
  const std::string_view stored = text;
  const auto scores = verifier->score("the river", std::span(&stored, 1));
  ASSERT_FALSE(scores.has_value());
  EXPECT_EQ(scores.error().code, ErrorCode::kInvalidArgument);
}

TEST(LlamaVerifier, AnEmbedderIsNoVerifierAndAVerifierNoEmbedder) {
  EXPECT_EQ(make_llama_verifier(kModels + "/vectors.gguf", 1).error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(make_llama_embedder(kModels + "/scores.gguf", 1).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(make_llama_verifier("/nowhere.gguf", 1).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(make_llama_verifier(__FILE__, 1).error().code, ErrorCode::kCorruption);
}

}  // namespace
}  // namespace afterimage
