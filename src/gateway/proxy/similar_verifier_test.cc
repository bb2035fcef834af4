// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "testing/running_gateway.h"

/// Similar questions that a cross-encoder verifies, through the whole gateway.
namespace afterimage {
namespace {

using testing::ask;
using ::testing::HasSubstr;
using testing::json;
using testing::Model;
using testing::Running;
using testing::Said;

constexpr std::array kTowns{"arles", "bergen", "cadiz",  "dover", "essen", "faro",  "genoa",
                            "hague", "iasi",   "jena",   "kiel",  "lodz",  "malmo", "nantes",
                            "oulu",  "porto",  "queluz", "riga",  "siena", "turin", "ulm",
                            "vigo",  "worms",  "xanten", "ystad", "zadar"};
constexpr const char* kBefore = "On which river does the old town of ";

/// The town that a question of these tests is about.
std::string town_in(const std::string& words) {
  const auto begin = words.find(" of ") + 4;
  return words.substr(begin, words.find_first_of(" ?", begin) - begin);
}

/// A cross-encoder: questions about the same town have the same answer.
class Reranker {
 public:
  Reranker() {
    server_.answers([this](const HttpRequest& request, const Responder& responder) {
      const json asked = json::parse(*request.body);
      json results = json::array();
      for (std::size_t i = 0; i < asked["documents"].size(); ++i) {
        const bool same = town_in(asked["documents"][i]) == town_in(asked["query"]);
        results.push_back({{"index", i}, {"relevance_score", same ? sure.load() : 0.01}});
      }
      responder.reply({.status = status, .body = json{{"results", results}}.dump()});
    });
  }
  [[nodiscard]] std::string url() const { return server_.url() + "/v1/rerank"; }
  int asked() { return server_.asked(); }
  Model& server() { return server_; }

  std::atomic<double> sure = 0.99;
  std::atomic<unsigned> status = 200;

 private:
  Model server_;
};

/// Little evidence is enough, so that the tests are short.
std::string settings(const std::string& url, const std::string& mode = "on",
                     const std::string& more = "") {
  return "[similarity]\nmode = \"" + mode +
         "\"\nerror_budget = 0.3\ndeadline = \"2 s\"\nverifier = \"" + url + "\"\n" + more;
}

std::string about(const std::string& town, bool polite) {
  return testing::question(kBefore + town + " lie" + (polite ? " please?" : "?"));
}

/// Slower than the cross-encoder, which would otherwise not be worth asking.
void know_rivers(Model& model) {
  model.answers([](const HttpRequest& request, const Responder& responder) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::string words = json::parse(*request.body)["messages"][0]["content"];
    responder.reply({.headers = {{"Content-Type", "application/json"}},
                     .body = Model::said("the " + town_in(words))});
  });
}

std::string text_of(const Said& said) {
  return json::parse(said.body)["choices"][0]["message"]["content"];
}
bool by_similarity(const Said& said) { return said.header("X-Cache-Source") == "similarity"; }

/// The value of one series of /metrics.
double metric(Running& running, const std::string& series) {
  const std::string all = ask(running.service->admin_port(), "GET", "/metrics", "").body;
  const auto at = all.find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::stod(all.substr(at + series.size() + 2));
}
double verifications(Running& running, const std::string& verdict) {
  return metric(running,
                R"(afterimage_similarity_verifications_total{verdict=")" + verdict + "\"}");
}
double evidence(Running& running, const std::string& verdict) {
  return metric(running, R"(afterimage_similarity_evidence_total{verdict=")" + verdict + "\"}");
}

void wait_until(const std::function<bool()>& done) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!done() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(done());
}

/// Waits until the model's answers are candidates: this comes after their replies.
void wait_learnt(Running& running) {
  wait_until(
      [&] { return metric(running, "afterimage_similarity_entries") >= running.model.asked(); });
}

/// Asks about each town, and again in other words. Returns how many were served by similarity.
int teach(Running& running) {
  int served = 0;
  for (const char* const town : kTowns) {
    running.chat(about(town, false));
    wait_learnt(running);
    const Said again = running.chat(about(town, true));
    wait_learnt(running);
    EXPECT_EQ(text_of(again), "the " + std::string(town));
    served += static_cast<int>(by_similarity(again));
  }
  return served;
}

TEST(SimilarVerifier, ShadowLearnsFromWhatIsVerifiedAndServesNothing) {
  Reranker reranker;
  Running running(settings(reranker.url(), "shadow"));
  know_rivers(running.model);
  EXPECT_EQ(teach(running), 0);
  EXPECT_EQ(running.model.asked(), 2 * static_cast<int>(kTowns.size()));
  EXPECT_EQ(verifications(running, "accepted"), kTowns.size());
  EXPECT_EQ(evidence(running, "right"), kTowns.size());
  EXPECT_EQ(evidence(running, "wrong"), 0) << "other towns are refused, and are no evidence";
}

TEST(SimilarVerifier, ServesVerifiedMatchesOnceTheEvidenceAllowsIt) {
  Reranker reranker;
  Running running(settings(reranker.url()));
  know_rivers(running.model);
  EXPECT_GT(teach(running), 5);
  const int asked = running.model.asked();
  const Said said = running.chat(testing::question(kBefore + std::string("zadar lie there?")));
  EXPECT_TRUE(by_similarity(said));
  EXPECT_EQ(text_of(said), "the zadar");
  EXPECT_EQ(running.model.asked(), asked);
  reranker.sure = 0.89;  // less than the threshold of 0.9
  EXPECT_FALSE(
      by_similarity(running.chat(testing::question(kBefore + std::string("ystad lie exactly?")))));
}

TEST(SimilarVerifier, AVetoComesFirst) {
  Reranker reranker;
  Running running(settings(reranker.url()));
  know_rivers(running.model);
  ASSERT_GT(teach(running), 5);
  running.chat(testing::question(kBefore + std::string("rome not lie, in the year 1900?")));
  wait_learnt(running);
  const int asked = reranker.asked();
  const int model = running.model.asked();
  const Said said =
      running.chat(testing::question(kBefore + std::string("rome not lie, in the year 1950?")));
  EXPECT_FALSE(by_similarity(said));
  EXPECT_EQ(running.model.asked(), model + 1);
  const json step = running
                        .admin("GET", "/admin/api/decisions/" +
                                          std::to_string(2 * kTowns.size() + 2))["match_levels"]
                        .back();
  EXPECT_EQ(step["match_level"], "similarity");
  EXPECT_EQ(reranker.asked(), asked) << step;
}

TEST(SimilarVerifier, ExplainSaysThatTheVerifierRefused) {
  Reranker reranker;
  Running running(settings(reranker.url()));
  know_rivers(running.model);
  running.chat(about("arles", false));
  wait_learnt(running);
  const auto explain = [&] {
    const json body = json::parse(about("arles", true));
    return running
        .admin("POST", "/admin/api/explain",
               json{{"operation", "chat"}, {"body", body}}.dump())["match_levels"]
        .back();
  };
  EXPECT_EQ(explain()["verification"], "accepted");
  EXPECT_EQ(explain()["verdict"], "unsure") << "there is no evidence";
  reranker.sure = 0.25;
  const json refused = explain();
  EXPECT_EQ(refused["verification"], "refused");
  EXPECT_EQ(refused["verifier_score"], 0.25);
  EXPECT_EQ(refused["verdict"], "missed");
  EXPECT_THAT(refused["candidate"].get<std::string>(), HasSubstr("arles"));
  reranker.status = 503;
  const json down = explain();
  EXPECT_EQ(down["verification"], "unavailable");
  EXPECT_THAT(down["verifier_error"].get<std::string>(), HasSubstr("503"));
  EXPECT_EQ(down["verifier_score"], json());
  EXPECT_EQ(verifications(running, "accepted"), 0) << "nothing is counted";
}

TEST(SimilarVerifier, WithoutAValidScoreNothingIsServed) {
  Reranker reranker;
  Running running(settings(reranker.url()));
  know_rivers(running.model);
  ASSERT_GT(teach(running), 5);
  const auto asks_the_model = [&](const std::string& words) {
    const int asked = running.model.asked();
    const Said said = running.chat(testing::question(kBefore + words));
    EXPECT_EQ(said.status, 200U);
    EXPECT_EQ(running.model.asked(), asked + 1) << words;
  };
  const double right = evidence(running, "right");
  const auto reply = [&](const std::string& body) {
    reranker.server().answers([body](const HttpRequest&, const Responder& responder) {
      responder.reply({.body = body});
    });
  };
  reply(R"({"results":[]})");
  asks_the_model("arles lie there?");
  reply(R"({"results":[{"index":7,"relevance_score":1}]})");
  asks_the_model("bergen lie there?");
  reply("no scores");
  asks_the_model("cadiz lie there?");
  EXPECT_EQ(verifications(running, "unavailable"), 3);
  EXPECT_EQ(evidence(running, "right"), right)
      << "pairs that the verifier did not score add no evidence";
}

TEST(SimilarVerifier, ASlowOneIsNotWaitedFor) {
  Reranker reranker;
  Running running(settings(reranker.url(), "on"));
  know_rivers(running.model);
  running.chat(about("arles", false));
  wait_learnt(running);
  running.text = running.text.replace(running.text.find("2 s"), 3, "50 ms");
  running.service.reset();
  running.service = running.start();
  running.chat(about("bergen", false));
  wait_until([&] { return metric(running, "afterimage_similarity_entries") >= 1; });
  reranker.server().hold(1);
  EXPECT_EQ(text_of(running.chat(about("bergen", true))), "the bergen");
  EXPECT_EQ(verifications(running, "unavailable"), 1);
}

TEST(SimilarVerifier, OneThatIsDownCostsHitsOnly) {
  Running running(settings("http://127.0.0.1:1/v1/rerank"));
  know_rivers(running.model);
  EXPECT_EQ(teach(running), 0);
  EXPECT_EQ(running.model.asked(), 2 * static_cast<int>(kTowns.size()));
  EXPECT_EQ(evidence(running, "right"), 0);
  EXPECT_GT(verifications(running, "unavailable"), 0);
}

TEST(SimilarVerifier, NothingIsStoredBecauseOfIt) {
  Reranker reranker;
  Running running(settings(reranker.url()));
  know_rivers(running.model);
  ASSERT_GT(teach(running), 5);
  const double entries = metric(running, "afterimage_answers_entries");
  const double similar = metric(running, "afterimage_similarity_entries");
  ASSERT_TRUE(
      by_similarity(running.chat(testing::question(kBefore + std::string("zadar lie there?")))));
  EXPECT_EQ(metric(running, "afterimage_answers_entries"), entries);
  EXPECT_EQ(metric(running, "afterimage_similarity_entries"), similar);
}

}  // namespace
}  // namespace afterimage
