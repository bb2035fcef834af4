// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/llama_embedder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>

namespace afterimage {
namespace {

const std::string kFolder = AFTERIMAGE_DEMO_MODELS;
const std::string kMiniLm = kFolder + "/all-minilm-l6-v2.gguf";

float cosine(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0F);
}

Vector vector_of(Embedder& embedder, const std::string& text) {
  return embedder.embed_one(std::string_view(text)).value();
}

/// On any machine: a model with random weights.
TEST(LlamaEmbedder, VectorsHaveLengthOneAndDependOnTheTextAlone) {
  const auto embedder = make_llama_embedder(kFolder + "/vectors.gguf", 1).value();
  const Vector first = vector_of(*embedder, "the red lamp on the river");
  ASSERT_EQ(first.size(), embedder->dimensions());
  EXPECT_NEAR(cosine(first, first), 1, 1e-5);
  EXPECT_LT(cosine(first, vector_of(*embedder, "a green stone bird")), 0.9999F);
  const std::string_view texts[] = {"a", "the red lamp on the river"};
  const EmbedInput inputs[] = {texts[0], texts[1]};
  EXPECT_EQ(embedder->embed(inputs).value()[1], first) << "beside another text";
  EXPECT_TRUE(embedder->name().starts_with("gguf/"));
}

TEST(LlamaEmbedder, OfALongTextTheBeginningCounts) {
  const auto embedder = make_llama_embedder(kFolder + "/vectors.gguf", 1).value();
  std::string text;
  for (int i = 0; i < 600; ++i) text += "the river ";
  EXPECT_EQ(vector_of(*embedder, text), vector_of(*embedder, text + "and a green bird"));
}

TEST(LlamaEmbedder, RefusesWhatIsNoEmbedder) {
  EXPECT_EQ(make_llama_embedder(kFolder + "/plain.gguf", 1).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(make_llama_embedder("/nowhere.gguf", 1).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(make_llama_embedder(__FILE__, 1).error().code, ErrorCode::kCorruption);
}

TEST(LlamaEmbedder, RefusesPictures) {
  const auto embedder = make_llama_embedder(kFolder + "/vectors.gguf", 1).value();
  EXPECT_EQ(embedder->embed_one(std::span<const std::byte>()).error().code,
            ErrorCode::kUnsupported);
}

/// MiniLM reads each word of a script that it does not know as the same token, so all such questions were alike.
TEST(LlamaEmbedder, TextsInAnUnknownScriptAreLikeNoOthers) {
  if (!std::filesystem::exists(kMiniLm)) {
    GTEST_SKIP() << "no " << kMiniLm << ": scripts/fetch-embedder.py build/models";
  }
  const auto embedder = make_llama_embedder(kMiniLm, 1).value();
  for (const char* text : {"นี่คืออะไร", "เขาอยู่ที่ไหน", "Where is นี่คืออะไร?"}) {
    EXPECT_EQ(vector_of(*embedder, text), Vector(384)) << text;
  }
  EXPECT_NE(vector_of(*embedder, "Wo ist der Hund?"), Vector(384));
}

/// With trained weights.
TEST(LlamaEmbedder, MiniLmKnowsWhatIsAlike) {
  if (!std::filesystem::exists(kMiniLm)) {
    GTEST_SKIP() << "no " << kMiniLm << ": scripts/fetch-embedder.py build/models";
  }
  const auto embedder = make_llama_embedder(kMiniLm, 1).value();
  ASSERT_EQ(embedder->dimensions(), 384U);
  const Vector asked = vector_of(*embedder, "How do I reset my password?");
  const float reworded =
      cosine(asked, vector_of(*embedder, "I forgot my password, how can I set a new one?"));
  const float other = cosine(asked, vector_of(*embedder, "What is the capital of France?"));
  EXPECT_GT(reworded, 0.7F);
  EXPECT_LT(other, 0.2F);
}

}  // namespace
}  // namespace afterimage
