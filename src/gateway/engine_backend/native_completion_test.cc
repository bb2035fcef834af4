// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/engine_backend/native_completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "gateway/proxy/testing/built_in_gateway.h"
#include "testing/tokenizing_engine.h"

namespace afterimage {
namespace {

using ::testing::HasSubstr;
using testing::json;

class NativeCompletions : public ::testing::Test {
 protected:
  Result<std::string> ask(const std::string& body) {
    AFI_TRY(const NativeRequest asked, completion_.read(body));
    return completion_.answer(asked, [this](const std::string& bytes) { sent_ += bytes; }, {});
  }
  json said(const std::string& body) {
    const auto answer = ask(body);
    return answer.has_value() ? json::parse(*answer) : json(answer.error().message);
  }
  /// Those of the stream so far.
  [[nodiscard]] std::vector<json> events() const {
    std::vector<json> read;
    for (std::size_t at = 0; at < sent_.size();) {
      const std::size_t end = sent_.find("\n\n", at);
      EXPECT_EQ(sent_.substr(at, 6), "data: ");
      read.push_back(json::parse(sent_.substr(at + 6, end - at - 6)));
      at = end + 2;
    }
    return read;
  }

  SystemClock clock_;
  std::unique_ptr<const Engine> inner_ = testing::tiny_engine(clock_);
  const testing::TokenizingEngine engine_{*inner_};
  const std::unique_ptr<Reuse> reuse_ = Reuse::create({}, Secret{}, clock_).value();
  NativeCompletion completion_{.engine = engine_,
                               .reuse = *reuse_,
                               .defaults = engine_.default_options(),
                               .model = "m",
                               .space = Namespace::of(engine_.identity(), {}, Secret{}).value()};
  std::string sent_;
};

TEST_F(NativeCompletions, HaveTheFieldsOfLlamaServer) {
  const json whole = said(R"({"prompt":"ab","n_predict":4,"return_tokens":true,"seed":7})");
  EXPECT_EQ(whole["stop"], true) << whole.dump();
  EXPECT_EQ(whole["stop_type"], "limit");
  EXPECT_EQ(whole["prompt"], "<s>ab");
  EXPECT_EQ(whole["tokens_evaluated"], 3);
  EXPECT_EQ(whole["tokens_predicted"], 4);
  EXPECT_EQ(whole["tokens"].size(), 4U);
  EXPECT_EQ(whole["truncated"], false);
  EXPECT_EQ(whole["generation_settings"]["n_predict"], 4);
  EXPECT_EQ(whole["generation_settings"]["seed"], 7);
  EXPECT_EQ(whole["timings"]["prompt_n"], 3);
  EXPECT_EQ(whole["timings"]["predicted_n"], 4);
}

TEST_F(NativeCompletions, TakeTextsTokensAndBoth) {
  const json text = said(R"({"prompt":"ab","n_predict":4})");
  EXPECT_EQ(said(R"({"prompt":[256,97,98],"n_predict":4})")["content"], text["content"]);
  EXPECT_EQ(said(R"({"prompt":[256,97,"b"],"n_predict":4})")["content"], text["content"])
      << "only a text at the start gets the token before every text";
  const json list = said(R"({"prompt":["ab",[256,97,98]],"n_predict":4})");
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["content"], text["content"]);
  EXPECT_EQ(list[1]["content"], text["content"]);
  EXPECT_EQ(list[1]["index"], 1);
}

TEST_F(NativeCompletions, AStreamHasTheSameText) {
  const std::string text = said(R"({"prompt":"ab","n_predict":6})")["content"];
  EXPECT_EQ(ask(R"({"prompt":"ab","n_predict":6,"stream":true})"), "");
  std::string streamed;
  const auto read = events();
  for (const json& event : read) {
    streamed += event["content"];
    EXPECT_EQ(event["stop"], &event == &read.back());
  }
  EXPECT_EQ(streamed, text);
  EXPECT_EQ(read.back()["timings"]["cache_n"], 2) << "all but the last token of the prompt";
}

TEST_F(NativeCompletions, GiveTheProbabilitiesThatAreAskedFor) {
  const json whole = said(R"({"prompt":"ab","n_predict":3,"n_probs":2})");
  ASSERT_EQ(whole["completion_probabilities"].size(), 3U) << whole.dump();
  for (const json& token : whole["completion_probabilities"]) {
    EXPECT_LE(token["logprob"].get<double>(), 0);
    EXPECT_EQ(token["top_logprobs"].size(), 2U);
  }
}

TEST_F(NativeCompletions, GiveOnlyTheFieldsThatAreAskedFor) {
  const json some = said(
      R"({"prompt":"ab","n_predict":3,"response_fields":["prompt","generation_settings/n_predict"]})");
  EXPECT_EQ(some, json({{"prompt", "<s>ab"}, {"generation_settings/n_predict", 3}}));
}

// A name with a tilde, or a number too large for an index, was an exception on a worker's thread.
TEST_F(NativeCompletions, NamesOfFieldsThatNothingHasAreLeftOut) {
  const json some = said(
      R"({"prompt":"ab","n_predict":3,"return_tokens":true,"response_fields":["~","a~2/b","","/",)"
      R"("tokens/0","tokens/3","tokens/99999999999999999999999","tokens/-1","prompt/0","index"]})");
  EXPECT_EQ(some.size(), 2U) << some;
  EXPECT_TRUE(some["tokens/0"].is_number()) << some;
  EXPECT_EQ(some["index"], 0);
}

TEST_F(NativeCompletions, BiasesNameTokensOrTexts) {
  const json settings =
      said(R"({"prompt":"ab","n_predict":1,"logit_bias":[["ab",-5],[99,2]],"ignore_eos":true})");
  std::map<int, json> biases;
  for (const json& bias : settings["generation_settings"]["logit_bias"]) {
    biases[bias["token"]] = bias["bias"];
  }
  EXPECT_EQ(biases, (std::map<int, json>{{97, -5}, {98, -5}, {99, 2}, {256, json()}}))
      << "256 ends an answer: it is forbidden";
}

TEST_F(NativeCompletions, KnowTheirLongestPrompt) {
  EXPECT_EQ(completion_.read(R"({"prompt":"ab"})").value().longest_prompt(), 3U);
  EXPECT_EQ(completion_.read(R"({"prompt":["ab",[1,2,3,4],"a"]})").value().longest_prompt(), 4U);
}

TEST_F(NativeCompletions, SeedMinusOneIsAnySeed) {
  completion_.defaults.sampling.seed = 7;
  EXPECT_EQ(said(R"({"prompt":"ab","n_predict":1})")["generation_settings"]["seed"], 7);
  EXPECT_EQ(said(R"({"prompt":"ab","n_predict":1,"seed":-1})")["generation_settings"]["seed"], -1);
}

TEST_F(NativeCompletions, RefuseWhatTheyDoNotDoByName) {
  for (const auto& [body, why] :
       {std::array{"[]", "JSON object"}, std::array{"{", "JSON"},
        std::array{R"({"n_predict":1})", "prompt"}, std::array{R"({"prompt":[]})", "prompt"},
        std::array{R"({"prompt":{"multimodal_data":["x"],"prompt_string":"a"}})", "multimodal"},
        std::array{R"({"prompt":"a","post_sampling_probs":true})", "post_sampling_probs"},
        std::array{R"({"prompt":"a","temperature":-1})", "temperature"},
        std::array{R"({"prompt":"a","mirostat":2})", "mirostat"},
        std::array{R"({"prompt":"a","logit_bias":7})", "logit_bias"},
        std::array{R"({"prompt":"a","logit_bias":[7]})", "logit_bias"},
        std::array{R"({"prompt":"a","ignore_eos":1})", "ignore_eos"}}) {
    const auto answer = ask(body);
    ASSERT_FALSE(answer.has_value()) << body;
    EXPECT_THAT(answer.error().message, HasSubstr(why)) << body;
  }
}

}  // namespace
}  // namespace afterimage
