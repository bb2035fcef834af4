// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/endpoint_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "testing/local_server.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::LocalServer;

constexpr std::array<std::string_view, 3> kStored{"a", "bb", "ccc"};

/// Scores a document by its length, the best first, as servers do.
std::string scores_of(const std::string& body) {
  const json asked = json::parse(body);
  json results = json::array();
  for (std::size_t i = asked["documents"].size(); i-- > 0;) {
    const std::string document = asked["documents"][i];
    results.push_back({{"index", i},
                       {"document", {{"text", document}}},
                       {"relevance_score", 0.25 * static_cast<double>(document.size())}});
  }
  return http_answer(json{{"results", results}}.dump());
}

ModelEndpointOptions verifier_at(const LocalServer& server) {
  return {
      .url = parse_url(server.url("/v1/rerank")).value(), .model = "m", .key = "k", .deadline = 5s};
}

TEST(EndpointVerifier, AsksOnceAndKeepsTheOrder) {
  std::string head;
  json asked;
  LocalServer server([&](const std::string& h, const std::string& body) {
    head = h;
    asked = json::parse(body);
    return scores_of(body);
  });
  const ManualClock clock;
  EndpointVerifier verifier(verifier_at(server), clock);
  EXPECT_EQ(verifier.name(), "endpoint/m");
  const auto scores = verifier.score("new", kStored).value();
  EXPECT_THAT(scores, ElementsAre(FloatEq(0.25F), FloatEq(0.5F), FloatEq(0.75F)));
  EXPECT_EQ(server.asked(), 1);
  EXPECT_EQ(asked["model"], "m");
  EXPECT_EQ(asked["query"], "new");
  EXPECT_EQ(asked["documents"], json({"a", "bb", "ccc"}));
  EXPECT_EQ(asked["top_n"], 3) << "some servers return fewer unless they are told";
  EXPECT_THAT(head, HasSubstr("POST /v1/rerank"));
  EXPECT_THAT(head, HasSubstr("Authorization: Bearer k"));
}

TEST(EndpointVerifier, WithoutCandidatesNothingIsAsked) {
  LocalServer server([](const auto&, const std::string& body) { return scores_of(body); });
  const ManualClock clock;
  EndpointVerifier verifier(verifier_at(server), clock);
  EXPECT_TRUE(verifier.score("new", {}).value().empty());
  EXPECT_EQ(server.asked(), 0);
}

TEST(EndpointVerifier, AServerWithoutAModelNameIsNamedByItsAddress) {
  const ManualClock clock;
  const EndpointVerifier verifier({.url = parse_url("http://h:81/v1/rerank").value()}, clock);
  EXPECT_EQ(verifier.name(), "endpoint/h:81/v1/rerank");
}

TEST(EndpointVerifier, OpensTheCircuitForAFailingServer) {
  std::string reply = http_answer("busy", 503);
  LocalServer server([&](const auto&, const std::string& body) {
    return reply.empty() ? scores_of(body) : reply;
  });
  ManualClock clock;
  EndpointVerifier verifier(verifier_at(server), clock);
  const auto error = [&] { return verifier.score("new", kStored).error(); };
  EXPECT_THAT(error().message, HasSubstr("rerank server answered 503"));
  reply = http_answer("{}");  // an invalid response is a failure, too
  EXPECT_EQ(error().code, ErrorCode::kCorruption);
  EXPECT_EQ(error().code, ErrorCode::kCorruption);
  EXPECT_EQ(server.asked(), 3);
  EXPECT_THAT(error().message, HasSubstr("calls are rejected"));
  EXPECT_EQ(server.asked(), 3);
  reply.clear();
  clock.advance(5s);
  EXPECT_TRUE(verifier.score("new", kStored).has_value());
}

TEST(EndpointVerifier, EnforcesTheDeadline) {
  LocalServer server([](const auto&, const auto&) { return std::string(); });
  const ManualClock clock;
  ModelEndpointOptions chosen = verifier_at(server);
  chosen.deadline = 100ms;
  EndpointVerifier verifier(std::move(chosen), clock);
  EXPECT_EQ(verifier.score("new", kStored).error().code, ErrorCode::kTimeout);
}

TEST(ParseRerank, TakesScoresOfAnyScale) {
  const std::array<std::string_view, 2> two{"a", "b"};
  EXPECT_THAT(parse_rerank(R"({"results":[{"index":1,"relevance_score":-7},
                              {"index":0,"relevance_score":11.5,"document":"a"}]})",
                           two)
                  .value(),
              ElementsAre(11.5F, -7.0F));
}

TEST(ParseRerank, RejectsInvalidResponses) {
  const std::array<std::string_view, 2> two{"a", "b"};
  const auto results = [](const std::string& first, const std::string& second) {
    return R"({"results":[)" + first + "," + second + "]}";
  };
  const std::string zero = R"({"index":0,"relevance_score":0.5})";
  const std::string one = R"({"index":1,"relevance_score":0.5})";
  ASSERT_TRUE(parse_rerank(results(zero, one), two).has_value());
  const struct {
    const char* name;
    std::string body;
  } kCases[] = {
      {"no JSON", "scores"},
      {"an array", "[]"},
      {"of another API", R"({"data":[)" + zero + "," + one + "]}"},
      {"no list", R"({"results":{}})"},
      {"fewer results", R"({"results":[)" + zero + "]}"},
      {"more results", R"({"results":[)" + zero + "," + one + "," + one + "]}"},
      {"no object", results(zero, "0.5")},
      {"no index", results(zero, R"({"relevance_score":0.5})")},
      {"an index twice", results(zero, zero)},
      {"an index out of range", results(zero, R"({"index":2,"relevance_score":0.5})")},
      {"a negative index", results(zero, R"({"index":-1,"relevance_score":0.5})")},
      {"an index that is no integer", results(zero, R"({"index":1.0,"relevance_score":0.5})")},
      {"an index that lies", results(R"({"index":1,"relevance_score":0.5,"document":"a"})",
                                     R"({"index":0,"relevance_score":0.5,"document":"b"})")},
      {"another text",
       results(zero, R"({"index":1,"relevance_score":0.5,"document":{"text":"c"}})")},
      {"no score", results(zero, R"({"index":1})")},
      {"a score that is text", results(zero, R"({"index":1,"relevance_score":"0.5"})")},
      {"a score that is null", results(zero, R"({"index":1,"relevance_score":null})")},
      {"NaN, which is no JSON", results(zero, R"({"index":1,"relevance_score":NaN})")},
      {"beyond doubles", results(zero, R"({"index":1,"relevance_score":1e999})")},
      {"beyond floats", results(zero, R"({"index":1,"relevance_score":1e300})")},
  };
  for (const auto& c : kCases) {
    const auto parsed = parse_rerank(c.body, two);
    ASSERT_FALSE(parsed.has_value()) << c.name;
    EXPECT_EQ(parsed.error().code, ErrorCode::kCorruption) << c.name;
  }
}

}  // namespace
}  // namespace afterimage
