// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/cached_tokens.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

bool tells(ApiOperation operation, const std::string& fields) {
  const std::string content = operation == ApiOperation::kChat
                                  ? R"("messages":[{"role":"user","content":"Hi"}])"
                                  : R"("prompt":"Hi")";
  return tells_what_was_cached(read_api_request(operation,
                                                R"({"model":"m",)" + content + fields + "}",
                                                ApiReader::kOtherServer)
                                   .value());
}

TEST(CachedTokens, AnOrdinaryRequestTellsWhatWasCached) {
  EXPECT_TRUE(tells(ApiOperation::kChat, ""));
  EXPECT_TRUE(tells(ApiOperation::kChat, R"(,"n":1,"logprobs":true,"top_logprobs":3)"));
  EXPECT_TRUE(tells(ApiOperation::kCompletion, R"(,"echo":true)"));
  EXPECT_TRUE(tells(ApiOperation::kCompletion, R"(,"echo":false,"logprobs":0)"));
  EXPECT_TRUE(tells(ApiOperation::kCompletion, R"(,"prompt_logprobs":null)"));
}

TEST(CachedTokens, ChoicesOfOnePromptCountOneAnother) {
  EXPECT_FALSE(tells(ApiOperation::kChat, R"(,"n":4)"));
  EXPECT_FALSE(tells(ApiOperation::kCompletion, R"(,"best_of":2)"));
}

TEST(CachedTokens, ThePromptsProbabilitiesAreComputedWhateverIsCached) {
  EXPECT_FALSE(tells(ApiOperation::kChat, R"(,"prompt_logprobs":0)"));
  EXPECT_FALSE(tells(ApiOperation::kCompletion, R"(,"echo":true,"logprobs":0)"));
}

}  // namespace
}  // namespace afterimage
