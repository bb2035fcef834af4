// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/engine_backend/engine_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "foundation/types/request_work.h"
#include "gateway/proxy/testing/built_in_gateway.h"
#include "testing/forwarding_engine.h"
#include "testing/temporary_folder.h"

namespace afterimage {
namespace {

using testing::BuiltInGateway;
using ::testing::HasSubstr;
using testing::json;
using ::testing::Not;
using testing::question;
using testing::Said;
using testing::TemporaryFolder;

TEST(EngineBackend, AnAnswerThatItsOwnLimitTruncatedIsServedToTheSameRequest) {
  BuiltInGateway gateway;
  for (const char* more : {"", R"(,"max_tokens":4)"}) {
    const Said first = gateway.chat(question("What is it?", more));
    EXPECT_EQ(first.header("X-Cache"), "MISS") << first.body;
    EXPECT_THAT(first.header("Cache-Status"), HasSubstr("; stored"));
    EXPECT_EQ(json::parse(first.body)["choices"][0]["finish_reason"], "length");
    const Said second = gateway.chat(question("What is it?", more));
    EXPECT_EQ(second.header("X-Cache"), "HIT") << more;
    EXPECT_EQ(json::parse(second.body)["choices"], json::parse(first.body)["choices"]);
  }
  EXPECT_EQ(gateway.chat(question("what is it")).header("X-Cache"), "MISS")
      << "other words get whole answers only";
  EXPECT_EQ(gateway.chat(question("What is it?", R"(,"max_tokens":5)")).header("X-Cache"), "MISS");
}

TEST(EngineBackend, ATruncatedAnswerOnTheDiskIsServedToTheSameRequestOnly) {
  const TemporaryFolder folder;
  BuiltInGateway gateway("[memory]\ndisk = \"" + folder.path() + "\"\ndisk_size = \"64 MiB\"\n");
  gateway.chat(question("What is it?"));
  gateway.restart();
  EXPECT_EQ(gateway.chat(question("what is it")).header("X-Cache"), "MISS");
  EXPECT_EQ(gateway.chat(question("What is it?")).header("X-Cache"), "HIT");
}

TEST(EngineBackend, AnotherDefaultLimitIsAnotherQuestion) {
  const TemporaryFolder folder;
  const std::string disk = "[memory]\ndisk = \"" + folder.path() + "\"\ndisk_size = \"64 MiB\"\n";
  const std::string asked = question("What is it?");
  EXPECT_EQ(BuiltInGateway(disk + "[engine]\nmax_tokens = 4\n").chat(asked).header("X-Cache"),
            "MISS");
  EXPECT_EQ(BuiltInGateway(disk + "[engine]\nmax_tokens = 5\n").chat(asked).header("X-Cache"),
            "MISS");
  EXPECT_EQ(BuiltInGateway(disk + "[engine]\nmax_tokens = 4\n").chat(asked).header("X-Cache"),
            "HIT");
}

/// Its chat template writes a date into each prompt.
class DatedEngine final : public testing::ForwardingEngine {
 public:
  DatedEngine(std::unique_ptr<Engine> engine, const std::string& date)
      : ForwardingEngine(*engine), engine_(std::move(engine)), date_(date) {}
  [[nodiscard]] std::string clock_in_prompts(WallTime now) const override {
    EXPECT_LT(SystemWallClock().now() - now, std::chrono::minutes(5));
    return date_;
  }

 private:
  std::unique_ptr<Engine> engine_;
  const std::string& date_;
};

TEST(EngineBackend, AnAnswerToAPromptWithYesterdaysDateIsNoneToTodays) {
  std::string date = "2026-11-28";
  BuiltInGateway gateway("", [&](const Clock& clock) {
    return std::make_unique<DatedEngine>(testing::tiny_engine(clock), date);
  });
  const std::string asked = question("What day is it?");
  EXPECT_EQ(gateway.chat(asked).header("X-Cache"), "MISS");
  EXPECT_EQ(gateway.chat(asked).header("X-Cache"), "HIT");
  date = "2026-11-29";
  EXPECT_EQ(gateway.chat(asked).header("X-Cache"), "MISS");
  EXPECT_EQ(gateway.chat(asked).header("X-Cache"), "HIT");
  const std::string text = R"({"model":"m","temperature":0,"max_tokens":4,"prompt":"Today is"})";
  EXPECT_EQ(gateway.post("/v1/completions", text).header("X-Cache"), "MISS");
  date = "2026-11-30";
  EXPECT_EQ(gateway.post("/v1/completions", text).header("X-Cache"), "HIT")
      << "no template writes into a completion's prompt";
}

TEST(EngineBackend, TruncatedAnswersAreNotStoredWhereThatIsSwitchedOff) {
  BuiltInGateway gateway("[answers]\ncache_truncated = false\n");
  for (int i = 0; i < 2; ++i) {
    const Said said = gateway.chat(question("What is it?"));
    EXPECT_EQ(said.header("X-Cache"), "MISS");
    EXPECT_THAT(said.header("Cache-Status"), Not(HasSubstr("stored")));
  }
  const json last = gateway.admin("GET", "/admin/api/decisions")["decisions"][1];
  EXPECT_EQ(last["stored"], false);
  EXPECT_EQ(last["not_stored"], "truncated");
  EXPECT_EQ(last["miss"], "not_stored");
  EXPECT_THAT(gateway.metrics(),
              HasSubstr(R"(afterimage_answers_not_stored_total{reason="truncated"} 2)"));
}

// An image of 8 × 8 pixels.
constexpr const char* kPicture =
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR4nGM4IaeBFTEMLQkAiE5DgcTIHLQAAAAASU"
    "VORK5CYII=";

// Each of these was done two or three times, and the answer's stream was parsed again.
TEST(EngineBackend, ARequestIsParsedDecodedAndHashedOnce) {
  const auto counts = [] {
    const RequestWork& work = request_work();
    return std::array<std::uint64_t, 4>{work.json_parses, work.base64_decodes, work.media_hashes,
                                        work.event_parses};
  };
  for (const char* more :
       {"", R"(,"stream":true)", R"(,"stream":true,"stream_options":{"include_usage":true})"}) {
    BuiltInGateway gateway;
    const std::string body =
        R"({"model":"m","temperature":0,"max_tokens":3,"messages":[{"role":"user","content":[)"
        R"({"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":")"
        "data:image/png;base64," +
        std::string(kPicture) + R"("}}]}])" + more + "}";
    for (const char* outcome : {"MISS", "HIT"}) {
      const auto before = counts();
      const Said said = gateway.chat(body);
      ASSERT_EQ(said.header("X-Cache"), outcome) << said.body;
      std::array<std::uint64_t, 4> done = counts();
      for (std::size_t i = 0; i < done.size(); ++i) done[i] -= before[i];
      EXPECT_EQ(done, (std::array<std::uint64_t, 4>{1, 1, 1, 0}))
          << outcome << more << ": JSON texts, base64 texts, hashed files, events";
    }
  }
}

// The tenant's namespace goes down to the engine, and serves every choice, as the prompt does.
TEST(EngineBackend, ARequestIsIdentifiedAndPreparedOnce) {
  BuiltInGateway gateway;
  for (const std::uint64_t made : {1U, 0U}) {
    const std::uint64_t before = request_work().namespaces;
    const std::uint64_t prepared = request_work().prepared;
    const std::string words = "What is it? " + std::to_string(made);
    const Said said = gateway.chat(question(words, R"(,"seed":7,"n":3)"));
    ASSERT_EQ(said.header("X-Cache"), "MISS") << said.body;
    EXPECT_EQ(request_work().namespaces - before, made) << "the first of a tenant makes it";
    EXPECT_EQ(request_work().prepared - prepared, 1U);
  }
}

TEST(EngineBackend, APromptThatIsTooLongIsPreparedOnce) {
  BuiltInGateway gateway;
  const std::uint64_t prepared = request_work().prepared;
  const Said said = gateway.chat(question(std::string(20'000, 'x')));
  EXPECT_EQ(said.status, 413U) << said.body;
  EXPECT_EQ(request_work().prepared - prepared, 1U);
}

TEST(EngineBackend, TheStatsSayWhatWasNotComputedAgain) {
  BuiltInGateway gateway;
  gateway.chat(question("Tell me of the table in the middle of the room."));
  gateway.chat(question("Tell me of the table in the middle of the room.", R"(,"max_tokens":3)"));
  const json stats = gateway.admin("GET", "/admin/api/stats");
  EXPECT_EQ(stats["encoder"]["hits"], 0);
  EXPECT_EQ(stats["prefix"]["hits"], 1);
  EXPECT_GT(stats["prefix"]["tokens_reused"], 0);
  EXPECT_THAT(gateway.metrics(), HasSubstr("afterimage_prefix_tokens_reused_total " +
                                           stats["prefix"]["tokens_reused"].dump()));
}

// With the picture before the text, KV covers it for all but the first.
class SharedPictures : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(OfTheEngine, SharedPictures, ::testing::Bool(), [](const auto& is_first) {
  return is_first.param ? "BeforeTheText" : "AfterTheText";
});

TEST_P(SharedPictures, CountTheirAgents) {
  BuiltInGateway gateway;
  const auto ask = [&](const std::string& words, const std::string& agent) {
    const std::string text = R"({"type":"text","text":")" + words + "\"}";
    const std::string picture =
        R"({"type":"image_url","image_url":{"url":"data:image/png;base64,)" +
        std::string(kPicture) + "\"}}";
    const std::string body =
        R"({"model":"m","temperature":0,"max_tokens":3,"messages":[{"role":"user","content":[)" +
        (GetParam() ? picture + "," + text : text + "," + picture) + "]}]}";
    return gateway.chat(body, "X-Afterimage-Agent: " + agent + "\r\n").status;
  };
  EXPECT_EQ(ask("What is it?", "reader"), 200U);
  EXPECT_EQ(ask("And what colour has it?", "painter"), 200U);
  EXPECT_EQ(ask("Is it old?", "reader"), 200U);
  const json seen = gateway.admin("GET", "/admin/api/media");
  ASSERT_EQ(seen["media"].size(), 1U);
  EXPECT_EQ(seen["media"][0]["agents"], 2);
  EXPECT_EQ(seen["media"][0]["uses"], 2);
  EXPECT_EQ(seen["media"][0]["digest"].get<std::string>().size(), 64U);
  EXPECT_EQ(seen["agents"], 2);
  const json erased =
      gateway.admin("POST", "/admin/api/erase", json{{"media", seen["media"][0]["digest"]}}.dump());
  EXPECT_EQ(erased["encoder_outputs"], 1);
  EXPECT_EQ(gateway.admin("GET", "/admin/api/media")["media"], json::array());
}

TEST(EngineBackend, AfterTheEndOfAConversationTheKvOfItsAnswerIsNotKept) {
  const auto kept = [](const std::string& headers) {
    BuiltInGateway gateway;
    gateway.chat(question("Tell me of the table in the middle of the room."), headers);
    return gateway.admin("POST", "/admin/api/erase", R"({"all":true})")["kv_tokens"]
        .get<std::uint64_t>();
  };
  EXPECT_LT(kept("X-Afterimage-Conversation: ends\r\n"), kept(""));
  EXPECT_EQ(kept("X-Afterimage-Conversation: goes_on\r\nX-Afterimage-Agent: a\r\n"), kept(""));
}

TEST(EngineBackend, WhatItsModelMadeIsErasedByTheNameThatClientsUse) {
  BuiltInGateway gateway;
  gateway.chat(question("Tell me of the table in the middle of the room."));
  const auto erase = [&](const std::string& model) {
    return gateway.admin("POST", "/admin/api/erase", json{{"model", model}}.dump());
  };
  EXPECT_EQ(erase("another")["kv_tokens"], 0);
  const json models = json::parse(gateway.get("/v1/models").body);
  const json erased = erase(models["data"][0]["id"].get<std::string>());
  EXPECT_GT(erased["kv_tokens"], 0);
  EXPECT_EQ(erase("m")["answers"], 1) << "clients named their answers' model so";
}

// Clients ask for it before their first request; it was a 501.
TEST(EngineBackend, OneModelCanBeAskedFor) {
  BuiltInGateway gateway;
  const json models = json::parse(gateway.get("/v1/models").body);
  const std::string name = models["data"][0]["id"];
  EXPECT_EQ(json::parse(gateway.get("/v1/models/" + name).body), models["data"][0]);
  const Said missing = gateway.get("/v1/models/another");
  EXPECT_EQ(missing.status, 404U);
  EXPECT_EQ(json::parse(missing.body)["error"]["code"], "model_not_found");
}

std::string sampled(const std::string& more) {
  return R"({"model":"m","temperature":5,"max_tokens":12,"messages":[{"role":"user","content":)"
         R"("Tell me of the table in the middle of the room."}])" +
         more + "}";
}

std::string text_of(const json& choice) { return choice["message"]["content"]; }

TEST(EngineBackend, ASeededSampledAnswerIsReproducible) {
  BuiltInGateway gateway;
  const std::string no_cache = "Cache-Control: no-store\r\n";
  const json first = json::parse(gateway.chat(sampled(R"(,"seed":1)"), no_cache).body);
  const json again = json::parse(gateway.chat(sampled(R"(,"seed":1)"), no_cache).body);
  const json other = json::parse(gateway.chat(sampled(R"(,"seed":2)"), no_cache).body);
  EXPECT_EQ(first["choices"], again["choices"]);
  EXPECT_NE(first["choices"], other["choices"]);
  EXPECT_GT(gateway.admin("GET", "/admin/api/stats")["prefix"]["tokens_reused"], 0);
}

TEST(EngineBackend, TheOperatorsSeedHoldsWhereARequestNamesNone) {
  BuiltInGateway gateway("[engine]\nseed = 1\n");
  const auto text = [&](const char* seed) {
    return text_of(json::parse(gateway.chat(sampled(seed)).body)["choices"][0]);
  };
  EXPECT_EQ(text(""), text(""));
  EXPECT_EQ(text(""), text(R"(,"seed":1)"));
  EXPECT_NE(text(""), text(R"(,"seed":2)"));
  EXPECT_NE(text(R"(,"seed":-1)"), text(R"(,"seed":-1)")) << "another answer each time";
}

/// The events of a stream but for [DONE].
std::vector<json> events_of(const std::string& body) {
  std::vector<json> events;
  for (std::size_t at = body.find("data: {"); at != std::string::npos;
       at = body.find("data: {", at + 1)) {
    events.push_back(json::parse(body.substr(at + 6, body.find("\n\n", at) - at - 6)));
  }
  return events;
}

TEST(EngineBackend, ARequestForTimingsIsComputedEachTimeAndGetsThem) {
  BuiltInGateway gateway;
  const std::string fields = R"(,"seed":1,"timings_per_token":true)";
  for (int i = 0; i < 2; ++i) {
    const Said whole = gateway.chat(sampled(fields));
    EXPECT_EQ(whole.header("X-Cache"), "BYPASS");
    EXPECT_EQ(json::parse(whole.body)["timings"]["predicted_n"], 12);
  }
  const auto events = events_of(gateway.chat(sampled(fields + R"(,"stream":true)")).body);
  ASSERT_GT(events.size(), 3U);
  EXPECT_FALSE(events.front().contains("timings")) << "it has the role only";
  EXPECT_EQ(events[1]["timings"]["predicted_n"], 1);
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 12);
  EXPECT_EQ(events.back()["timings"]["predicted_n"], 12);
  EXPECT_TRUE(events.back()["timings"].contains("prompt_per_second"));
  for (const json& event : events_of(gateway.chat(sampled(R"(,"seed":1,"stream":true)")).body)) {
    EXPECT_FALSE(event.contains("timings"));
  }
}

TEST(EngineBackend, AVerboseRequestLearnsItsSettings) {
  BuiltInGateway gateway;
  const json said = json::parse(gateway.chat(sampled(R"(,"seed":1,"verbose":true)")).body);
  EXPECT_EQ(said["__verbose"]["generation_settings"]["seed"], 1);
  EXPECT_EQ(said["__verbose"]["tokens_predicted"], 12);
  EXPECT_FALSE(said.contains("timings"));
  const Said quiet = gateway.chat(sampled(R"(,"seed":1,"verbose":false)"));
  EXPECT_FALSE(json::parse(quiet.body).contains("__verbose"));
}

TEST(EngineBackend, TheOperatorCanMakeEveryAnswerVerbose) {
  BuiltInGateway gateway("[engine]\nverbose = true\n");
  for (int i = 0; i < 2; ++i) {
    const Said said = gateway.chat(question("What is it?"));
    EXPECT_EQ(said.header("X-Cache"), "BYPASS");
    EXPECT_TRUE(json::parse(said.body).contains("__verbose")) << said.body;
  }
}

TEST(EngineBackend, HintsOfLlamaServerAreTaken) {
  BuiltInGateway gateway;
  EXPECT_EQ(gateway.chat(sampled(R"(,"id_slot":0,"cache_prompt":true)")).status, 200U);
}

TEST(EngineBackend, ARequesterGetsASampledAnswerOnce) {
  BuiltInGateway gateway;
  const json first = json::parse(gateway.chat(sampled("")).body);
  const Said again = gateway.chat(sampled(""));
  EXPECT_EQ(again.header("X-Cache"), "MISS");
  EXPECT_EQ(again.header("X-Afterimage-Draw"), "2");
  EXPECT_NE(first["choices"], json::parse(again.body)["choices"]);
  EXPECT_GT(gateway.admin("GET", "/admin/api/stats")["prefix"]["tokens_reused"], 0);
}

TEST(EngineBackend, ChoicesAreRunsWithSeedsOfTheirOwn) {
  BuiltInGateway gateway;
  const json both = json::parse(gateway.chat(sampled(R"(,"seed":1,"n":2)")).body);
  ASSERT_EQ(both["choices"].size(), 2U) << both;
  EXPECT_EQ(both["usage"]["completion_tokens"], 24);
  EXPECT_GT(gateway.admin("GET", "/admin/api/stats")["prefix"]["tokens_reused"], 0)
      << "the second choice resumes from the first one's prefix";
  for (const std::size_t choice : {0U, 1U}) {
    EXPECT_EQ(both["choices"][choice]["index"], choice);
    const std::string seed = R"(,"seed":)" + std::to_string(choice + 1);
    const json alone = json::parse(gateway.chat(sampled(seed)).body);
    EXPECT_EQ(text_of(both["choices"][choice]), text_of(alone["choices"][0]));
  }
}

TEST(EngineBackend, AnAnswerEndsBeforeAStopText) {
  BuiltInGateway gateway;
  const std::string whole =
      text_of(json::parse(gateway.chat(sampled(R"(,"seed":3)")).body)["choices"][0]);
  ASSERT_GT(whole.size(), 6U);
  const std::string fields = R"(,"seed":3,"stop":[)" + json(whole.substr(3, 3)).dump() + "]";
  const json said = json::parse(gateway.chat(sampled(fields)).body)["choices"][0];
  EXPECT_EQ(text_of(said), whole.substr(0, whole.find(whole.substr(3, 3))));
  EXPECT_EQ(said["finish_reason"], "stop");
  const Said stream =
      gateway.chat(sampled(fields + R"(,"stream":true)"), "Cache-Control: no-cache\r\n");
  EXPECT_THAT(stream.body, HasSubstr(R"("finish_reason":"stop")"));
}

TEST(EngineBackend, LogProbabilitiesAreThoseOfTheText) {
  BuiltInGateway gateway;
  const json choice = json::parse(
      gateway.chat(sampled(R"(,"seed":1,"logprobs":true,"top_logprobs":2)")).body)["choices"][0];
  const json& tokens = choice["logprobs"]["content"];
  ASSERT_EQ(tokens.size(), 12U);
  std::string text;
  for (const json& token : tokens) {
    text += token["token"];
    EXPECT_LE(token["logprob"], 0);
    ASSERT_EQ(token["top_logprobs"].size(), 2U);
    EXPECT_GE(token["top_logprobs"][0]["logprob"], token["top_logprobs"][1]["logprob"]);
  }
  EXPECT_EQ(text, text_of(choice));
}

TEST(EngineBackend, WhatAnEngineDoesNotImplementIsRefusedByName) {
  BuiltInGateway gateway;
  const struct {
    const char* field;
    const char* name;
  } kFields[] = {
      {R"(,"tools":[{"type":"function","function":{"name":"f"}}])", "'tools'"},
      {R"(,"response_format":{"type":"json_object"})", "'response_format'"},
      {R"(,"grammar":"root ::= \"a\"")", "'grammar'"},
      {R"(,"top_p":7)", "top_p"},
  };
  for (const auto& c : kFields) {
    const Said said = gateway.chat(sampled(c.field));
    EXPECT_EQ(said.status, 400U) << said.body;
    EXPECT_THAT(said.body, HasSubstr(c.name));
  }
}

}  // namespace
}  // namespace afterimage
