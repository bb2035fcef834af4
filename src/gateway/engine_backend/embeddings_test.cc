// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/engine_backend/embeddings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/proxy/testing/built_in_gateway.h"
#include "testing/tokenizing_engine.h"

namespace afterimage {
namespace {

using testing::BuiltInGateway;
using ::testing::HasSubstr;
using testing::json;

class Embeddings : public ::testing::Test {
 protected:
  Result<std::string> ask(const std::string& fields) const {
    AFI_TRY(const ApiRequest request,
            read_api_request(ApiOperation::kEmbedding, R"({"model":"m",)" + fields + "}",
                             ApiReader::kEngine));
    AFI_TRY(const EmbeddingInputs inputs, embedding_inputs(request, engine_));
    return answer_embeddings(request, inputs, engine_);
  }

  SystemClock clock_;
  std::unique_ptr<const Engine> inner_ = testing::tiny_engine(clock_);
  const testing::TokenizingEngine engine_{*inner_};
};

// "a", "b" and the token before every text are 97, 98 and 256; modulo 3: 1, 2 and 1.
TEST_F(Embeddings, AreOneVectorForEachInput) {
  EXPECT_EQ(ask(R"("input":"ab")"),
            R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0,2,1]}],)"
            R"("model":"m","usage":{"prompt_tokens":3,"total_tokens":3}})");
  const auto both = json::parse(ask(R"("input":["b",[97,97]])").value());
  EXPECT_EQ(both["data"][0]["embedding"], json({0, 1, 1}));
  EXPECT_EQ(both["data"][1]["embedding"], json({0, 2, 0})) << "tokens are taken as they are";
  EXPECT_EQ(both["data"][1]["index"], 1);
  EXPECT_EQ(both["usage"]["prompt_tokens"], 4);
}

TEST_F(Embeddings, TakeTextsAndTokensInOneInput) {
  const auto mixed =
      json::parse(ask(R"("input":[[256,97,"b"],["a",98],{"prompt_string":"ab"}])").value());
  for (const json& one : mixed["data"]) {
    EXPECT_EQ(one["embedding"], json({0, 2, 1}))
        << "only a text at the start gets the token before";
  }
  EXPECT_EQ(mixed["data"].size(), 3U);
}

TEST_F(Embeddings, AreTheBytesOfTheirFloatsInBase64) {
  const auto said = json::parse(ask(R"("input":"ab","encoding_format":"base64")").value());
  EXPECT_EQ(said["data"][0]["embedding"], "AAAAAAAAAEAAAIA/");  // 0, 2, 1
}

TEST_F(Embeddings, RefuseWhatTheyDoNotDo) {
  EXPECT_THAT(ask(R"("input":"a","dimensions":2)").error().message, HasSubstr("dimensions"));
  EXPECT_THAT(ask(R"("input":"a","encoding_format":"int8")").error().message,
              HasSubstr("encoding_format"));
  EXPECT_FALSE(ask(R"("input":[])").has_value());
  EXPECT_FALSE(ask(R"("input":{"text":"a"})").has_value());
}

TEST(EmbeddingsOfTheGateway, AnEngineWithoutThemSaysWhichHasThem) {
  BuiltInGateway gateway;
  const auto said = gateway.post("/v1/embeddings", R"({"model":"m","input":"a"})");
  EXPECT_EQ(said.status, 400U) << said.body;
  EXPECT_THAT(said.body, HasSubstr("embeddings"));
}

}  // namespace
}  // namespace afterimage
