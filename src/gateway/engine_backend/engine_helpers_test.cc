// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/engine_backend/engine_helpers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/proxy/testing/built_in_gateway.h"
#include "testing/tokenizing_engine.h"

namespace afterimage {
namespace {

using testing::BuiltInGateway;
using ::testing::HasSubstr;
using testing::json;

class EngineHelpers : public ::testing::Test {
 protected:
  Result<std::string> post(std::string_view path, const std::string& body) const {
    return engine_helper(served_, "POST", path, body);
  }

  SystemClock clock_;
  std::unique_ptr<const Engine> inner_ = testing::tiny_engine(clock_);
  const testing::TokenizingEngine engine_{*inner_};
  const EngineSettings settings_{.model = "m", .file = "m.gguf"};
  const ServedEngine served_{.engine = engine_,
                             .settings = settings_,
                             .defaults = {.max_tokens = TokenCount(16), .sampling = {.seed = 42}}};
};

TEST_F(EngineHelpers, ListsTheLanes) {
  EXPECT_EQ(engine_helper(served_, "GET", "/slots", ""),
            R"([{"id":0,"n_ctx":77,"is_processing":true},)"
            R"({"id":1,"n_ctx":77,"is_processing":false}])");
}

TEST_F(EngineHelpers, TokenizesAndBack) {
  EXPECT_EQ(post("/tokenize", R"({"content":"ab"})"), R"({"tokens":[97,98]})");
  EXPECT_EQ(post("/tokenize", R"({"content":"<s>a","add_special":true})"),
            R"({"tokens":[256,256,97]})");
  EXPECT_EQ(post("/tokenize", R"({"content":"<s>","parse_special":false})"),
            R"({"tokens":[60,115,62]})");
  EXPECT_EQ(post("/tokenize", "{}"), R"({"tokens":[]})");
  EXPECT_EQ(post("/detokenize", R"({"tokens":[256,97,195,169]})"), R"({"content":"<s>aé"})");
  EXPECT_EQ(post("/detokenize", R"({"tokens":[195]})"), "{\"content\":\"\uFFFD\"}");
}

TEST_F(EngineHelpers, APieceThatIsPartOfACharacterIsGivenAsBytes) {
  EXPECT_EQ(
      post("/tokenize", R"({"content":"aé","with_pieces":true})"),
      R"({"tokens":[{"id":97,"piece":"a"},{"id":195,"piece":[195]},{"id":169,"piece":[169]}]})");
}

TEST_F(EngineHelpers, ShowsThePrompt) {
  EXPECT_EQ(post("/apply-template", R"({"messages":[{"role":"user","content":"hi"}]})"),
            R"({"prompt":"<user>hi"})");
}

TEST_F(EngineHelpers, PropertiesHaveWhatARequestCanLeaveOut) {
  const json said = json::parse(engine_helper(served_, "GET", "/props", "").value());
  EXPECT_EQ(said["total_slots"], 2);
  EXPECT_EQ(said["model_alias"], "m");
  EXPECT_EQ(said["model_path"], "m.gguf") << "the name only: clients need not know the folder";
  EXPECT_EQ(said["chat_template"], "{{ it }}");
  EXPECT_EQ(said["default_generation_settings"]["n_ctx"], 77);
  EXPECT_EQ(said["default_generation_settings"]["params"]["seed"], 42);
  EXPECT_EQ(said["default_generation_settings"]["params"]["n_predict"], 16);
}

TEST(EngineHelpersOfTheGateway, SlotsCanBeSwitchedOff) {
  BuiltInGateway gateway("[engine]\nslots = false\n");
  const auto said = gateway.get("/slots");
  EXPECT_EQ(said.status, 501U) << said.body;
  EXPECT_THAT(said.body, HasSubstr("engine.slots is false"));
}

TEST_F(EngineHelpers, RefusesWhatItCannotRead) {
  for (const auto& [path, body, why] :
       {std::array{"/tokenize", R"({"content":7})", "content must be a string"},
        std::array{"/tokenize", R"({"content":"","add_special":1})", "add_special must be"},
        std::array{"/tokenize", "[]", "must be a JSON object"},
        std::array{"/detokenize", R"({"tokens":"x"})", "list of token ids"},
        std::array{"/detokenize", R"({"tokens":[-1]})", "list of token ids"},
        std::array{"/detokenize", R"({"tokens":[99999999999]})", "list of token ids"},
        std::array{"/detokenize", R"({"tokens":[999]})", "not a token"},
        std::array{"/apply-template", "{}", "messages must be"}}) {
    const auto said = post(path, body);
    ASSERT_FALSE(said.has_value()) << path << body;
    EXPECT_EQ(said.error().code, ErrorCode::kInvalidArgument) << body;
    EXPECT_THAT(said.error().message, HasSubstr(why));
  }
  EXPECT_EQ(post("/slots", "").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(post("/props", "").error().code, ErrorCode::kNotFound);
}

TEST(EngineHelpersOfTheGateway, AnEngineWithoutTokenizerSaysSo) {
  BuiltInGateway gateway;
  const auto said = gateway.post("/tokenize", R"({"content":"a"})");
  EXPECT_THAT(said.body, HasSubstr("--engine llama has one"));
  EXPECT_THAT(gateway.post("/infill", "{}").body, HasSubstr("the API is under /v1/"));
  EXPECT_THAT(gateway.post("/v1/audio", "{}").body, HasSubstr("does not offer POST /v1/audio"));
}

TEST(EngineHelpersOfTheGateway, ACompletionMayHaveSeveralPromptsAndNeedsNoModel) {
  BuiltInGateway gateway;
  const auto both = json::parse(
      gateway.post("/v1/completions", R"({"prompt":["Once","Twice"],"n":2,"max_tokens":4})").body);
  ASSERT_EQ(both["choices"].size(), 4U) << both.dump();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(both["choices"][i]["index"], i);
  EXPECT_EQ(both["usage"]["prompt_tokens"], 11) << "each begins with a token of its own";
  EXPECT_EQ(both["usage"]["completion_tokens"], 16);
  const auto twice =
      json::parse(gateway.post("/v1/completions", R"({"prompt":"Twice","max_tokens":4})").body);
  EXPECT_EQ(both["choices"][0]["text"], both["choices"][1]["text"]);
  EXPECT_EQ(both["choices"][2]["text"], twice["choices"][0]["text"]);
  EXPECT_NE(both["choices"][0]["text"], both["choices"][2]["text"]);
}

}  // namespace
}  // namespace afterimage
