// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/endpoint_embedder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/local_server.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::LocalServer;

/// Returns a distinct vector for each text, in another order, as servers may.
std::string embeddings_of(const std::string& body) {
  const json asked = json::parse(body);
  json data = json::array();
  for (std::size_t i = asked["input"].size(); i-- > 0;) {
    const auto size = static_cast<double>(asked["input"][i].get<std::string>().size());
    data.push_back({{"index", i}, {"embedding", {3.0 * size, 4.0 * size}}});
  }
  return http_answer(json{{"data", data}}.dump());
}

ModelEndpointOptions options(const LocalServer& server) {
  ModelEndpointOptions options;
  options.url = parse_url(server.url("/v1/embeddings")).value();
  options.model = "m";
  options.key = "k";
  options.deadline = 5s;
  return options;
}

std::vector<EmbedInput> inputs(std::span<const std::string> texts) {
  return {texts.begin(), texts.end()};
}

TEST(EndpointEmbedder, SendsBatchesAndKeepsTheOrder) {
  std::vector<std::size_t> batches;
  std::string head;
  LocalServer server([&](const std::string& h, const std::string& body) {
    head = h;
    batches.push_back(json::parse(body)["input"].size());
    return embeddings_of(body);
  });
  const ManualClock clock;
  auto embedder = EndpointEmbedder::create(options(server), clock, /*batch=*/2).value();
  EXPECT_EQ(embedder->dimensions(), 2U);
  EXPECT_EQ(embedder->name(), "endpoint/m/2");
  const std::vector<std::string> texts{"a", "bb", "\xff no text"};
  const auto vectors = embedder->embed(inputs(texts)).value();
  ASSERT_EQ(vectors.size(), 3U);
  for (const Vector& v : vectors)
    EXPECT_THAT(v, ElementsAre(FloatNear(0.6F, 1e-6F), FloatNear(0.8F, 1e-6F)));
  EXPECT_THAT(batches, ElementsAre(1U, 2U, 1U));
  EXPECT_THAT(head, HasSubstr("Authorization: Bearer k"));
}

TEST(EndpointEmbedder, OpensTheCircuitForAFailingServer) {
  bool works = true;
  LocalServer server([&](const auto&, const std::string& body) {
    return works ? embeddings_of(body) : http_answer("busy", 503);
  });
  ManualClock clock;
  auto embedder = EndpointEmbedder::create(options(server), clock).value();
  works = false;
  const std::string_view text = "a";
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(embedder->embed_one(text).error().code, ErrorCode::kUnavailable);
  }
  EXPECT_EQ(server.asked(), 1 + 3);
  EXPECT_THAT(embedder->embed_one(text).error().message, HasSubstr("calls are rejected"));
  works = true;
  clock.advance(5s);
  EXPECT_TRUE(embedder->embed_one(text).has_value());
  // Only consecutive failures count, and this call succeeded.
  works = false;
  const int asked = server.asked();
  for (int i = 0; i < 2; ++i) (void)embedder->embed_one(text);
  EXPECT_EQ(server.asked(), asked + 2);
}

TEST(EndpointEmbedder, EnforcesTheDeadline) {
  bool works = true;
  LocalServer server([&](const auto&, const std::string& body) {
    return works ? embeddings_of(body) : std::string();
  });
  const ManualClock clock;
  ModelEndpointOptions chosen = options(server);
  chosen.deadline = 300ms;
  auto embedder = EndpointEmbedder::create(std::move(chosen), clock).value();
  works = false;
  EXPECT_EQ(embedder->embed_one(std::string_view("a")).error().code, ErrorCode::kTimeout);
}

TEST(EndpointEmbedder, RejectsImages) {
  LocalServer server([](const auto&, const std::string& body) { return embeddings_of(body); });
  const ManualClock clock;
  auto embedder = EndpointEmbedder::create(options(server), clock).value();
  EXPECT_EQ(embedder->embed_one(std::span<const std::byte>()).error().code,
            ErrorCode::kUnsupported);
}

TEST(ParseEmbeddings, RejectsInvalidResponses) {
  EXPECT_EQ(parse_embeddings(R"({"data":[{"embedding":[0,2]}]})", 1, 0).value()[0],
            (Vector{0.0F, 1.0F}));
  for (const char* body :
       {"", "[]", "{}", R"({"data":[]})", R"({"data":{}})", R"({"data":[1]})", R"({"data":[{}]})",
        R"({"data":[{"embedding":[]}]})", R"({"data":[{"embedding":"AAAA"}]})",
        R"({"data":[{"embedding":["x"]}]})", R"({"data":[{"embedding":[1e999, 1]}]})",
        R"({"data":[{"index":1,"embedding":[1]}]})", R"({"data":[{"index":-1,"embedding":[1]}]})",
        R"({"data":[{"embedding":[1]},{"embedding":[1]}]})"}) {
    EXPECT_EQ(parse_embeddings(body, 1, 0).error().code, ErrorCode::kCorruption) << body;
  }
  const char* twice = R"({"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]})";
  EXPECT_EQ(parse_embeddings(twice, 2, 0).error().code, ErrorCode::kCorruption);
  const char* uneven = R"({"data":[{"embedding":[1]},{"embedding":[1,2]}]})";
  EXPECT_EQ(parse_embeddings(uneven, 2, 0).error().code, ErrorCode::kCorruption);
  EXPECT_EQ(parse_embeddings(R"({"data":[{"embedding":[1]}]})", 1, 2).error().code,
            ErrorCode::kCorruption);
}

}  // namespace
}  // namespace afterimage
