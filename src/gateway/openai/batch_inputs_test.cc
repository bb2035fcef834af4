// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/batch_inputs.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace afterimage {
namespace {

ApiRequest read(const std::string& body, ApiReader reader = ApiReader::kOtherServer) {
  return read_api_request(ApiOperation::kEmbedding, body, reader).value();
}

TEST(BatchInputs, AreTheTextsOrTokensOfABatch) {
  const ApiRequest texts = read(R"({"model":"m","input":["a", "b\n", "a"],"dimensions":5})");
  ASSERT_EQ(texts.batch.inputs.size(), 3U);
  EXPECT_EQ(texts.batch.inputs[1].text, "b\n");
  const ApiRequest tokens = read(R"({"model":"m","input":[[1, 2],[3]],"user":"u"})");
  ASSERT_EQ(tokens.batch.inputs.size(), 2U);
  EXPECT_EQ(tokens.batch.inputs[0].tokens, "[1,2]");
}

TEST(BatchInputs, ThereAreNoneWhereOneInputMayDependOnTheOthers) {
  for (const char* body :
       {R"({"model":"m","input":"a"})", R"({"model":"m","input":["a"]})",
        R"({"model":"m","input":[1,2]})", R"({"model":"m","input":[1,"a"]})",
        R"({"model":"m","input":["a",""]})", R"({"model":"m","input":["a",{"text":"b"}]})",
        R"({"model":"m","input":["a",["b"]]})",
        R"({"model":"m","input":["a","b"],"late_chunking":true})",
        R"({"model":"m","input":["a","b"],"unknown":1})",
        R"({"model":"m","input":["a","data:image/png;base64,AAAA"]})"}) {
    EXPECT_TRUE(read(body).batch.inputs.empty()) << body;
  }
  EXPECT_FALSE(
      read(R"({"model":"m","input":["a","b"],"late_chunking":false})").batch.inputs.empty());
}

TEST(BatchInputs, AListOfOneIsItsInput) {
  const auto equal = [](const std::string& one, const std::string& other) {
    const ApiRequest a = read(one);
    const ApiRequest b = read(other);
    return a.scope.other == b.scope.other && a.question == b.question &&
           a.scope.messages.size() == b.scope.messages.size();
  };
  EXPECT_TRUE(equal(R"({"model":"m","input":"a"})", R"({"model":"m","input":["a"]})"));
  EXPECT_TRUE(equal(R"({"model":"m","input":[1,2]})", R"({"model":"m","input":[[1,2]]})"));
  EXPECT_FALSE(equal(R"({"model":"m","input":"a"})", R"({"model":"m","input":["a","a"]})"));
  EXPECT_FALSE(equal(R"({"model":"m","input":[1,2]})", R"({"model":"m","input":[[1],[2]]})"));
  const ApiRequest engine = read(R"({"model":"m","input":["a"]})", ApiReader::kEngine);
  EXPECT_EQ(engine.question, "a");
  EXPECT_EQ(engine.engine->prompts.size(), 1U);
}

// Regression: such an answer was stored, and served when something else was at the address.
TEST(BatchInputs, AnInputByAddressIsNotIdentified) {
  const auto code = [](const char* body) {
    const auto request = read_api_request(ApiOperation::kEmbedding, body, ApiReader::kOtherServer);
    return request.has_value() ? std::nullopt : std::optional(request.error().code);
  };
  EXPECT_EQ(code(R"({"model":"m","input":[{"image":"https://x.org/a.png"}]})"),
            ErrorCode::kUnsupported);
  EXPECT_EQ(code(R"({"model":"m","input":[{"image":"data:image/png;base64,AAAA"}]})"),
            std::nullopt);
  EXPECT_EQ(code(R"({"model":"m","input":["https://x.org"]})"), std::nullopt) << "a text";
}

TEST(BatchInputs, ABodyWithSomeOfThemKeepsTheRest) {
  const std::string body = R"({"model":"m", "input": ["a", "b\u00e9" ,"c"], "dimensions":5})";
  const ApiRequest request = read(body);
  EXPECT_EQ(with_inputs(body, request.batch, std::array<std::size_t, 2>{1, 2}),
            R"({"model":"m", "input": ["b\u00e9","c"], "dimensions":5})");
}

}  // namespace
}  // namespace afterimage
