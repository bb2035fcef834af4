// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/usage_scan.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

const std::string kUsage =
    R"("usage":{"prompt_tokens":120,"completion_tokens": 7,"total_tokens":127,)"
    R"("prompt_tokens_details":{"cached_tokens":96}}})";

UsageScan scan(const std::string& bytes, std::size_t piece) {
  UsageScan scan;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    scan.feed(std::string_view(bytes).substr(at, piece));
  }
  return scan;
}

TEST(UsageScan, FindsTheCountsWhereverTheBytesAreCut) {
  const std::string body =
      R"({"choices":[{"message":{"content":"x"}}],)" + kUsage + std::string(200, ' ');
  for (std::size_t piece = 1; piece <= body.size(); ++piece) {
    const UsageScan found = scan(body, piece);
    ASSERT_EQ(found.prompt_tokens(), 120U) << piece;
    ASSERT_EQ(found.output_tokens(), 7U) << piece;
    ASSERT_EQ(found.cached_tokens(), 96U) << piece;
  }
}

TEST(UsageScan, ReadsTheTimingsOfLlamaServer) {
  const std::string body =
      R"({"usage":{"prompt_tokens":9},"timings":{"cache_n":6,"prompt_n":3}})" + std::string(9, ' ');
  for (std::size_t piece = 1; piece <= body.size(); ++piece) {
    ASSERT_EQ(scan(body, piece).cached_tokens(), 6U) << piece;
  }
}

TEST(UsageScan, TextIsNeverACount) {
  const UsageScan found = scan(R"({"content":"\"prompt_tokens\":5,\"cached_tokens\":4 ,"})", 1000);
  EXPECT_EQ(found.prompt_tokens(), std::nullopt);
  EXPECT_EQ(found.cached_tokens(), std::nullopt);
}

TEST(UsageScan, TheLastCountsAreUsed) {
  const UsageScan found = scan(R"({"prompt_tokens":1,} {"prompt_tokens":2,})", 1000);
  EXPECT_EQ(found.prompt_tokens(), 2U);
}

TEST(UsageScan, ReadsTheNamesOfOtherProtocols) {
  const UsageScan found = scan(R"({"input_tokens":11,"output_tokens":3,)", 1000);
  EXPECT_EQ(found.prompt_tokens(), 11U);
  EXPECT_EQ(found.output_tokens(), 3U);
}

TEST(UsageScan, IgnoresWhatIsNoCount) {
  for (const char* bytes :
       {R"("prompt_tokens":-1,)", R"("prompt_tokens":null,)",
        R"("prompt_tokens":99999999999999999999,)", R"("prompt_tokens":2000000000,)",
        R"("my_prompt_tokens":1,)", R"("prompt_tokens":)"}) {
    EXPECT_EQ(scan(bytes, 1000).prompt_tokens(), std::nullopt) << bytes;
  }
}

}  // namespace
}  // namespace afterimage
