// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/serve.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama_library/request_limits.h"
#include "testing/demo_models.h"
#include "testing/temporary_folder.h"

/// Requests beyond what a model's file allows. Beyond some of these limits llama.cpp ends the process.
namespace afterimage {
namespace {

using testing::demo_options;
using testing::TemporaryFolder;

constexpr std::uint32_t kPositions = 300;  // no multiple of what the library rounds a context up to

/// A copy of a demo model with another value of the same size in its file.
LlamaOptions changed(const TemporaryFolder& folder, const std::string& name, const std::string& key,
                     std::string_view value) {
  LlamaOptions options = demo_options(name);
  std::ifstream in(options.model, std::ios::binary);
  std::string file{std::istreambuf_iterator<char>(in), {}};
  constexpr std::size_t kType = sizeof(std::uint32_t);
  std::size_t at = file.find(key);
  EXPECT_NE(at, std::string::npos) << key;
  at += key.size() + kType + (value.size() == sizeof(std::uint32_t) ? 0 : sizeof(std::uint64_t));
  file.replace(at, value.size(), value);
  options.model = folder.file(name + ".gguf");
  options.mmproj = "";
  std::ofstream(options.model, std::ios::binary) << file;
  return options;
}

std::string bytes_of(std::uint32_t number) {
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

class ShortModel : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TemporaryFolder folder;
    engine =
        LlamaEngine::create(changed(folder, "plain", "llama.context_length", bytes_of(kPositions)))
            .value();
  }
  static void TearDownTestSuite() { engine.reset(); }

  static Result<Served> answer(std::size_t tokens, TokenCount most) {
    Request request;
    request.is_completion = true;
    request.prompt_tokens.assign(tokens, TokenId(65));
    const SystemClock clock;
    return serve_without_reuse(request, *engine, clock, {.max_tokens = most});
  }

  static std::unique_ptr<LlamaEngine> engine;
};
std::unique_ptr<LlamaEngine> ShortModel::engine;

// The limit came from --context alone, and the library ended the process at a position that a model with
// learned positions does not have.
TEST_F(ShortModel, HasNoLargerContextThanItsPositions) {
  EXPECT_EQ(engine->tokenizer()->context(), TokenCount(kPositions));
  EXPECT_TRUE(engine->description().contains("300 tokens at most, not 1024"))
      << engine->description();
  EXPECT_TRUE(engine->identity().weights_epoch.contains("context=300"));
}

TEST_F(ShortModel, EmbedsWhatHasPositionsAndRefusesTheNextToken) {
  EXPECT_EQ(engine->tokenizer()->longest_embedding(), TokenCount(kPositions));
  EXPECT_TRUE(engine->embed(std::vector<TokenId>(kPositions, TokenId(65))).has_value());
  const auto refused = engine->embed(std::vector<TokenId>(kPositions + 1, TokenId(65)));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
  EXPECT_TRUE(refused.error().message.contains("301 tokens")) << refused.error().message;
}

TEST_F(ShortModel, AnswersWithinItsPositions) {
  const auto served = answer(kPositions - 4, kNoTokenLimit);
  ASSERT_TRUE(served.has_value()) << to_string(served.error());
  EXPECT_LE(served->completion.tokens.size(), 4U);
  EXPECT_EQ(answer(kPositions, TokenCount(1)).error().code, ErrorCode::kLimitExceeded);
}

TEST_F(ShortModel, RefusesAnImpossiblePromptForItsHiddenState) {
  const Sequence prompt{.tokens = std::vector<TokenId>(kPositions + 1, TokenId(65))};
  EXPECT_EQ(engine->hidden_state(prompt, {}).error().code, ErrorCode::kLimitExceeded);
}

TEST(ModelLimits, AModelWithTooFewPositionsIsRefused) {
  const TemporaryFolder folder;
  const auto refused =
      LlamaEngine::create(changed(folder, "plain", "llama.context_length", bytes_of(127)));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(refused.error().message.contains("127 positions")) << refused.error().message;
}

TEST(ModelLimits, ALongWordIsRefusedWhereATokenizerMatchesItWithARegularExpression) {
  const TemporaryFolder folder;
  const auto engine =
      LlamaEngine::create(changed(folder, "dense", "tokenizer.ggml.pre", "bloom")).value();
  const std::string longest(RequestLimits::kRun, 'a');
  EXPECT_TRUE(engine->tokenizer()->tokenize(longest, {}).has_value());
  const auto refused = engine->tokenizer()->tokenize(longest + "a", {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(refused.error().message.contains("in a row")) << refused.error().message;
  Request request;
  request.messages.push_back({.role = Role::kUser, .parts = {longest + "a"}});
  EXPECT_EQ(engine->prepare(request, {}).error().message, refused.error().message);
}

}  // namespace
}  // namespace afterimage
