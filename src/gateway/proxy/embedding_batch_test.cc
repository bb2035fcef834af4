// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Batches of embeddings, whose inputs are entries of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "testing/running_gateway.h"
#include "testing/temporary_folder.h"

namespace afterimage {
namespace {

using testing::ask;
using ::testing::HasSubstr;
using testing::json;
using testing::Running;
using testing::Said;

json inputs_of(const json& body) {
  const json& input = body["input"];
  return input.is_array() && !input.front().is_number() ? input : json::array({input});
}

/// The vector of an input depends on it alone; a token is counted for each of its bytes.
HttpReply embedded(const HttpRequest& request) {
  const json body = json::parse(*request.body);
  json said{{"object", "list"}, {"model", body["model"]}, {"data", json::array()}};
  std::size_t tokens = 0;
  for (const json& input : inputs_of(body)) {
    const std::string text = input.dump();
    tokens += text.size();
    json vector = json::array({text.size(), std::hash<std::string>()(text) % 1000});
    if (body.value("encoding_format", "") == "base64") vector = "b64 of " + text;
    said["data"].push_back(
        {{"object", "embedding"}, {"index", said["data"].size()}, {"embedding", vector}});
  }
  said["usage"] = {{"prompt_tokens", tokens}, {"total_tokens", tokens}};
  return {.headers = {{"Content-Type", "application/json"}}, .body = said.dump()};
}

struct Embedding : Running {
  explicit Embedding(const std::string& toml = "") : Running(toml) {
    model.answers([](const HttpRequest& request, const Responder& responder) {
      responder.reply(embedded(request));
    });
  }
  Said embed(const json& input, const json& more = json::object(),
             const std::string& headers = "") {
    json body{{"model", "m"}, {"input", input}};
    body.update(more);
    return ask(service->port(), "POST", "/v1/embeddings", body.dump(), headers);
  }
  json asked_for() { return json::parse(*model.last().body)["input"]; }
  /// What the server would say to all of it.
  static json expected(const json& input, const json& more = json::object()) {
    json body{{"model", "m"}, {"input", input}};
    body.update(more);
    const HttpReply reply = embedded({.method = "POST",
                                      .target = "",
                                      .headers = {},
                                      .body = std::make_shared<const std::string>(body.dump()),
                                      .peer = ""});
    return json::parse(std::get<std::string>(reply.body));
  }
};

TEST(EmbeddingBatch, OnlyWhatIsNotStoredIsAskedFor) {
  Embedding running;
  EXPECT_EQ(running.embed({"a", "bb"}).header("X-Cache"), "MISS");
  const json batch{"ccc", "a", "dddd", "bb"};
  const Said said = running.embed(batch);
  EXPECT_EQ(running.asked_for(), json({"ccc", "dddd"}));
  EXPECT_EQ(said.header("X-Cache"), "MISS");
  EXPECT_EQ(said.header("X-Afterimage-Cached-Inputs"), "2 of 4");
  const json body = json::parse(said.body);
  EXPECT_EQ(body["data"], Embedding::expected(batch)["data"]) << "in order, each with its index";
  EXPECT_EQ(body["usage"], Embedding::expected({"ccc", "dddd"})["usage"]) << "what was counted";
  const Said again = running.embed(batch);
  EXPECT_EQ(again.header("X-Cache"), "HIT");
  EXPECT_EQ(again.header("X-Afterimage-Cached-Inputs"), "4 of 4");
  EXPECT_EQ(json::parse(again.body)["data"], body["data"]);
  EXPECT_EQ(json::parse(again.body)["usage"]["prompt_tokens"], 0) << "never counted as a whole";
  EXPECT_EQ(running.model.asked(), 2);
}

TEST(EmbeddingBatch, TheSameBatchHasTheSameAnswer) {
  Embedding running;
  const Said first = running.embed({"a", "bb"});
  const Said again = running.embed({"a", "bb"});
  EXPECT_EQ(again.header("X-Cache"), "HIT");
  EXPECT_EQ(json::parse(again.body), json::parse(first.body)) << "usage, too";
  EXPECT_EQ(json::parse(running.embed({"bb", "a"}).body)["usage"]["prompt_tokens"], 0);
}

TEST(EmbeddingBatch, ServesSingleRequestsAndTheOtherWayRound) {
  Embedding running;
  running.embed({"a", "bb"});
  for (const json& one : {json("a"), json({"a"})}) {
    const Said said = running.embed(one);
    EXPECT_EQ(said.header("X-Cache"), "HIT");
    EXPECT_EQ(json::parse(said.body)["data"], Embedding::expected(one)["data"]);
  }
  const Said single = running.embed("ccc");
  EXPECT_EQ(json::parse(single.body)["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(json::parse(running.embed("ccc").body)["usage"]["prompt_tokens"], 5)
      << "counted for it alone";
  const Said batch = running.embed({"ccc", "a", "a"});
  EXPECT_EQ(batch.header("X-Cache"), "HIT");
  EXPECT_EQ(json::parse(batch.body)["data"], Embedding::expected({"ccc", "a", "a"})["data"]);
  EXPECT_EQ(running.model.asked(), 2);
}

TEST(EmbeddingBatch, TokensFormatsAndDimensionsAreApart) {
  Embedding running;
  const json tokens = json::array({json({1, 2}), json({3})});
  running.embed(tokens);
  EXPECT_EQ(running.embed(json({1, 2})).header("X-Cache"), "HIT");
  running.embed(json::array({json({3}), json({4, 5})}));
  EXPECT_EQ(running.asked_for(), json::array({json({4, 5})}));
  const json base64{{"encoding_format", "base64"}};
  EXPECT_EQ(running.embed({"a", "b"}).header("X-Cache"), "MISS");
  EXPECT_EQ(running.embed({"a", "b"}, base64).header("X-Cache"), "MISS");
  const Said mixed = running.embed({"b", "c"}, base64);
  EXPECT_EQ(json::parse(mixed.body)["data"], Embedding::expected({"b", "c"}, base64)["data"]);
  EXPECT_EQ(running.asked_for(), json({"c"}));
  EXPECT_EQ(running.embed("a", {{"dimensions", 2}}).header("X-Cache"), "MISS");
}

TEST(EmbeddingBatch, OneCallForBatchesThatLackTheSame) {
  Embedding running;
  running.embed({"a", "b"});
  running.model.hold(1);
  Said one;
  Said other;
  Said single;
  {
    std::vector<std::jthread> clients;
    clients.emplace_back([&] { one = running.embed({"a", "c"}); });
    clients.emplace_back([&] { other = running.embed({"c", "b"}); });
    clients.emplace_back([&] { single = running.embed("c"); });
    const auto held = running.model.wait_held(1);
    while (running.admin("GET", "/admin/api/stats")["requests"]["in_flight"] != 3) {
      std::this_thread::yield();
    }
    held.front().reply(embedded(running.model.last()));
  }
  EXPECT_EQ(running.model.asked(), 2);
  EXPECT_EQ(json::parse(one.body)["data"], Embedding::expected({"a", "c"})["data"]);
  EXPECT_EQ(json::parse(other.body)["data"], Embedding::expected({"c", "b"})["data"]);
  EXPECT_EQ(json::parse(single.body)["data"], Embedding::expected("c")["data"]);
}

TEST(EmbeddingBatch, InputsThatDependOnEachOtherStayOne) {
  Embedding running;
  const json late{{"late_chunking", true}};
  running.embed({"a", "b"}, late);
  EXPECT_EQ(running.embed({"a", "b"}, late).header("X-Cache"), "HIT");
  EXPECT_EQ(running.embed({"a", "c"}, late).header("X-Afterimage-Cached-Inputs"), "");
  EXPECT_EQ(running.asked_for(), json({"a", "c"}));
}

TEST(EmbeddingBatch, AnErrorIsAboutWhatTheClientSent) {
  Embedding running;
  running.embed({"a", "b"});
  running.model.answers([](const HttpRequest& request, const Responder& responder) {
    const std::size_t inputs = json::parse(*request.body)["input"].size();
    responder.reply({.status = 400,
                     .headers = {{"Content-Type", "application/json"}},
                     .body = "{\"error\":{\"message\":\"one of " + std::to_string(inputs) +
                             " inputs is too long\"}}"});
  });
  const Said said = running.embed({"a", "too long", "b"});
  EXPECT_EQ(said.status, 400U);
  EXPECT_THAT(said.body, HasSubstr("one of 3 inputs"));
  EXPECT_EQ(running.model.asked(), 3);
}

TEST(EmbeddingBatch, AnAnswerOfAnotherFormIsAskedForAsAWhole) {
  Embedding running;
  running.embed({"a", "b"});
  const std::string odd = R"({"object":"list","data":[{"embedding":[1]}],"model":"m"})";
  running.model.answers([&](const HttpRequest&, const Responder& responder) {
    responder.reply({.headers = {{"Content-Type", "application/json"}}, .body = odd});
  });
  const Said said = running.embed({"a", "c", "d"});
  EXPECT_EQ(running.asked_for(), json({"a", "c", "d"}));
  EXPECT_EQ(said.body, odd) << "as the server sent it";
  EXPECT_EQ(running.embed({"a", "c", "d"}).header("X-Cache"), "HIT") << "kept as a whole";
}

TEST(EmbeddingBatch, DirectivesHold) {
  Embedding running;
  running.embed({"a", "b"});
  EXPECT_EQ(running.embed({"b", "a"}, json::object(), "Cache-Control: only-if-cached\r\n").status,
            200U);
  EXPECT_EQ(running.embed({"a", "c"}, json::object(), "Cache-Control: only-if-cached\r\n").status,
            504U);
  EXPECT_EQ(
      running.embed({"a", "c"}, json::object(), "Cache-Control: no-cache\r\n").header("X-Cache"),
      "REFRESH");
  EXPECT_EQ(running.asked_for(), json({"a", "c"}));
  EXPECT_EQ(running.embed("c").header("X-Cache"), "HIT");
  running.embed({"d", "e"}, json::object(), "Cache-Control: no-store\r\n");
  EXPECT_EQ(running.embed("d").header("X-Cache"), "MISS");
}

TEST(EmbeddingBatch, ASettingAndTimingProtectionKeepBatchesWhole) {
  for (const char* toml :
       {"[answers]\nsplit_batches = false\n", "[answers]\ntiming_protection = \"all\"\n"}) {
    Embedding running(toml);
    running.embed({"a", "b"});
    running.embed({"a", "b"});
    EXPECT_EQ(running.model.asked(), 1) << toml;
    running.embed({"a", "c"});
    EXPECT_EQ(running.asked_for(), json({"a", "c"})) << toml;
    running.embed("a");
    EXPECT_EQ(running.model.asked(), 3) << toml;
  }
}

TEST(EmbeddingBatch, AWrongAnswerIsErasedWithItsInputs) {
  Embedding running;
  running.embed({"a", "b"});
  const Said said = running.embed({"a", "b"});
  EXPECT_EQ(said.header("X-Cache"), "HIT");
  const Said reported =
      running.post("/afterimage/wrong", R"({"request_id":")" + said.header("X-Request-Id") + "\"}");
  EXPECT_EQ(reported.status, 200U) << reported.body;
  EXPECT_EQ(running.embed("a").header("X-Cache"), "MISS");
  EXPECT_EQ(running.embed("b").header("X-Cache"), "MISS");
}

// Regression: the server was asked for the rest, and what had been erased meanwhile was served with it.
TEST(EmbeddingBatch, WhatIsErasedWhileTheRestIsAskedForIsNotServed) {
  const testing::TemporaryFolder folder;
  const std::string disk = "[memory]\ndisk = \"" + folder.path() + "\"\ndisk_size = \"64 MiB\"\n";
  for (const std::string& toml : {std::string(), disk}) {
    Embedding running(toml);
    running.embed({"a", "b"});
    running.model.hold(1);
    Said said;
    {
      const std::jthread client([&] { said = running.embed({"a", "c"}); });
      const auto held = running.model.wait_held(1);
      EXPECT_EQ(running.asked_for(), json({"c"})) << toml;
      running.admin("POST", "/admin/api/erase", R"({"model":"m"})");
      held.front().reply(embedded(running.model.last()));
    }
    EXPECT_EQ(running.asked_for(), json({"a", "c"})) << toml;
    EXPECT_EQ(said.header("X-Afterimage-Cached-Inputs"), "") << toml;
    EXPECT_EQ(json::parse(said.body)["data"], Embedding::expected({"a", "c"})["data"]) << toml;
  }
}

TEST(EmbeddingBatch, WhatIsReplacedMeanwhileIsStillServed) {
  Embedding running;
  running.embed({"a", "b"});
  running.model.hold(1);
  Said said;
  {
    const std::jthread client([&] { said = running.embed({"a", "c"}); });
    const auto held = running.model.wait_held(1);
    const HttpRequest asked = running.model.last();
    running.embed("b", json::object(), "Cache-Control: no-cache\r\n");
    held.front().reply(embedded(asked));
  }
  EXPECT_EQ(said.header("X-Afterimage-Cached-Inputs"), "1 of 2");
  EXPECT_EQ(running.model.asked(), 3);
}

TEST(EmbeddingBatch, ExplainCountsTheInputs) {
  Embedding running;
  running.embed({"a", "b"});
  const auto explained = [&](const json& input) {
    const json body{{"operation", "embedding"}, {"body", {{"model", "m"}, {"input", input}}}};
    return running.admin("POST", "/admin/api/explain", body.dump());
  };
  EXPECT_EQ(explained({"b", "a"})["outcome"], "hit");
  EXPECT_EQ(explained({"b", "c"})["outcome"], "miss");
  EXPECT_THAT(explained({"b", "c"})["why"].get<std::string>(), HasSubstr("1 of 2 inputs"));
}

TEST(EmbeddingBatch, InputsOutliveARestartOnDisk) {
  const testing::TemporaryFolder folder;
  Embedding running("[memory]\ndisk = \"" + folder.path() + "\"\ndisk_size = \"64 MiB\"\n");
  running.embed({"a", "b"});
  running.service.reset();
  running.service = running.start();
  const Said said = running.embed({"c", "b"});
  EXPECT_EQ(said.header("X-Afterimage-Cached-Inputs"), "1 of 2");
  EXPECT_EQ(running.asked_for(), json({"c"}));
  EXPECT_EQ(json::parse(said.body)["data"], Embedding::expected({"c", "b"})["data"]);
}

}  // namespace
}  // namespace afterimage
