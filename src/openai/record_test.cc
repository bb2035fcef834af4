// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/openai/record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace afterimage {
namespace {

using Json = nlohmann::ordered_json;

TEST(ApiRecord, APlainAnswerIsSaidAsAServerOfThisApiSaysIt) {
  const ApiRecord record = record_of(ApiOperation::kChat, {.text = "A \"cat\"\n",
                                                           .finish_reason = "stop",
                                                           .model = "reference",
                                                           .prompt_tokens = TokenCount(7),
                                                           .output_tokens = TokenCount(3)});
  EXPECT_EQ(record.body({.id = "chatcmpl-9", .created = 1234}),
            R"({"id":"chatcmpl-9","object":"chat.completion","created":1234,"model":"reference",)"
            R"("choices":[{"index":0,"message":{"role":"assistant","content":"A \"cat\"\n",)"
            R"("refusal":null},"logprobs":null,"finish_reason":"stop"}],)"
            R"("usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}})");
  EXPECT_EQ(record.text(), "A \"cat\"\n");
  EXPECT_EQ(record.finish_reason(), "stop");
  EXPECT_EQ(record.model(), "reference");
  EXPECT_EQ(record.prompt_tokens(), TokenCount(7));
  EXPECT_EQ(record.output_tokens(), TokenCount(3));
  EXPECT_FALSE(record.calls_tools());
  const std::string head =
      R"(data: {"id":"i","object":"chat.completion.chunk","created":5,"model":"reference",)";
  EXPECT_EQ(
      record.events({.id = "i", .created = 5}, true),
      head +
          R"("choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          head +
          R"("choices":[{"index":0,"delta":{"content":"A \"cat\"\n"},"logprobs":null,"finish_reason":null}]})"
          "\n\n" +
          head +
          R"("choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]})"
          "\n\n" +
          head +
          R"("choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}})"
          "\n\ndata: [DONE]\n\n");
}

}  // namespace
}  // namespace afterimage
