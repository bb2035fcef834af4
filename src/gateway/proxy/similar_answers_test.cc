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
#include "testing/temporary_folder.h"

/// Answers to similar questions, through the whole gateway.
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
/// Little evidence is enough, so that the tests are short.
constexpr const char* kOn = "[similarity]\nmode = \"on\"\nerror_budget = 0.3\n";

std::string about(const std::string& town, bool polite) {
  return testing::question("On which river does the old town of " + town + " lie" +
                           (polite ? " please?" : "?"));
}

/// A model server that knows a river for each town; `suffix` changes all of them.
void know_rivers(Model& model, const std::string& suffix = "") {
  model.answers([suffix](const HttpRequest& request, const Responder& responder) {
    const std::string words = json::parse(*request.body)["messages"][0]["content"];
    const auto begin = words.find("of ") + 3;
    const std::string town = words.substr(begin, words.find(' ', begin) - begin);
    responder.reply({.headers = {{"Content-Type", "application/json"}},
                     .body = Model::said("the " + town + suffix)});
  });
}

std::string text_of(const Said& said) {
  return json::parse(said.body)["choices"][0]["message"]["content"];
}

bool by_similarity(const Said& said) { return said.header("X-Cache-Source") == "similarity"; }

json similarity_level(Running& running) {
  const json stats = running.admin("GET", "/admin/api/stats");
  for (const json& level : stats["match_levels"]) {
    if (level["match_level"] == "similarity") return level;
  }
  return {};
}

/// The value of one series of /metrics.
double metric(Running& running, const std::string& series) {
  const std::string all = ask(running.service->admin_port(), "GET", "/metrics", "").body;
  const auto at = all.find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::stod(all.substr(at + series.size() + 2));
}
constexpr const char* kDemotions = "afterimage_similarity_demotions_total";

/// Waits until the disk holds what the model was asked.
void wait_kept(Running& running) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (metric(running, R"(afterimage_similarity_archive_total{event="kept"})") <
             running.model.asked() &&
         std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// Asks about each town, and again in other words. Returns how many were served by similarity.
/// With a disk a question becomes a candidate after its reply: pass `wait_kept`.
int teach(
    Running& running, const std::string& headers = "",
    const std::function<void(Running&)>& wait = [](Running&) {}) {
  int served = 0;
  for (const char* const town : kTowns) {
    running.chat(about(town, false), headers);
    wait(running);
    const Said again = running.chat(about(town, true), headers);
    wait(running);
    EXPECT_EQ(text_of(again), "the " + std::string(town));
    served += static_cast<int>(by_similarity(again));
  }
  return served;
}

TEST(SimilarAnswers, IsOffByDefault) {
  Running running;
  know_rivers(running.model);
  EXPECT_EQ(teach(running), 0);
  EXPECT_TRUE(similarity_level(running).is_null());
}

// Whether two answers are the same says nothing of the questions where answers vary.
TEST(SimilarAnswers, SampledAnswersAreNeitherEvidenceNorCandidates) {
  Running running(kOn);
  know_rivers(running.model);
  for (const std::string& rule : {"per-requester", "replay"}) {
    const std::string headers = "X-Afterimage-Sampled: " + rule + "\r\n";
    for (const char* const town : kTowns) {
      for (const bool polite : {false, true}) {
        json body = json::parse(about(town, polite));
        body["temperature"] = 1;
        EXPECT_EQ(running.chat(body.dump(), headers).header("X-Cache"), "MISS");
      }
    }
  }
  const SimilarityStats stats = running.service->gateway().parts().similar->stats().level;
  EXPECT_EQ(stats.lookups, 0U);
  EXPECT_EQ(stats.entries, EntryCount(0));
}

TEST(SimilarAnswers, ShadowComparesAndServesNothing) {
  Running running("[similarity]\nmode = \"shadow\"\nerror_budget = 0.3\n");
  know_rivers(running.model);
  EXPECT_EQ(teach(running), 0);
  EXPECT_EQ(running.model.asked(), 2 * static_cast<int>(kTowns.size()));
  EXPECT_EQ(similarity_level(running)["served"], 0);
  EXPECT_GE(similarity_level(running)["matched_not_used"], kTowns.size());
  EXPECT_GE(metric(running, R"(afterimage_similarity_evidence_total{verdict="right"})"), 20)
      << "a neighbour may be another town, whose answer is wrong";
}

TEST(SimilarAnswers, ServesOnceTheEvidenceAllowsIt) {
  Running running(kOn);
  know_rivers(running.model);
  running.chat(about("arles", false));
  EXPECT_FALSE(by_similarity(running.chat(about("arles", true)))) << "no evidence yet";
  EXPECT_GT(teach(running), 5);
  const Said said = running.chat(about("zadar", true));
  EXPECT_EQ(text_of(said), "the zadar");
  EXPECT_GT(similarity_level(running)["served"], 5);
}

TEST(SimilarAnswers, ADecisionSaysWhatWasSimilar) {
  Running running(kOn);
  know_rivers(running.model);
  running.chat(about("arles", false));
  running.chat(about("arles", true));
  const json step = running.admin("GET", "/admin/api/decisions/2")["match_levels"].back();
  EXPECT_EQ(step["match_level"], "similarity");
  EXPECT_EQ(step["verdict"], "unsure");
  EXPECT_THAT(step["candidate"].get<std::string>(), HasSubstr("arles"));
  EXPECT_GT(step["similarity"], 0.85);
  EXPECT_EQ(step["vetoes"], json::array());
}

TEST(SimilarAnswers, ExplainAsksAndCountsNothing) {
  Running running(kOn);
  know_rivers(running.model);
  const auto explain = [&](const std::string& body) {
    return running.admin("POST", "/admin/api/explain",
                         json{{"operation", "chat"}, {"body", json::parse(body)}}.dump());
  };
  running.chat(about("arles", false));
  EXPECT_EQ(explain(about("arles", true))["match_levels"].back()["verdict"], "unsure");
  ASSERT_GT(teach(running), 5);
  const std::string reworded =
      testing::question("On which river does the old town of zadar lie there?");
  const json before = similarity_level(running);
  const json said = explain(reworded);
  EXPECT_EQ(said["outcome"], "hit");
  EXPECT_EQ(said["match_level"], "similarity");
  EXPECT_EQ(said["match_levels"].back()["verdict"], "served");
  EXPECT_EQ(similarity_level(running), before);
  EXPECT_TRUE(by_similarity(running.chat(reworded)));
}

TEST(SimilarAnswers, AWrongAnswerEndsTheEvidenceAtOnce) {
  // One wrong answer more would not use up this budget.
  Running running(
      "[similarity]\nmode = \"on\"\nerror_budget = 0.5\n"
      "[answers]\nverify_sample_rate = 1.0\n");
  know_rivers(running.model);
  ASSERT_GT(teach(running), 5);
  running.model.wait_asked(2 * static_cast<int>(kTowns.size()));  // with those that are compared
  know_rivers(running.model, ", since the flood");
  // The stored answers are wrong now: the first that is served is compared, and ends it.
  int served = 0;
  for (const char* const town : kTowns) {
    const std::string words = "On which river does the old town of ";
    served += static_cast<int>(
        by_similarity(running.chat(testing::question(words + town + " lie there?"))));
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (served > 0 && metric(running, kDemotions) < 1 &&
           std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  EXPECT_EQ(served, 1) << "none after the wrong one";
  EXPECT_EQ(metric(running, kDemotions), 1);
}

/// Reports the answer to a request as wrong.
Said report(Running& running, const Said& answered, const std::string& headers = "") {
  return running.post("/afterimage/wrong",
                      json{{"request_id", answered.header("X-Request-Id")}}.dump(), headers);
}

constexpr const char* kWrong = R"(afterimage_similarity_evidence_total{verdict="wrong"})";

TEST(SimilarAnswers, AReportedAnswerIsErasedAndIsEvidence) {
  Running running(kOn);
  know_rivers(running.model);
  ASSERT_GT(teach(running), 5);
  const std::string reworded =
      testing::question("On which river does the old town of zadar lie there?");
  const Said said = running.chat(reworded);
  ASSERT_TRUE(by_similarity(said));
  const double wrong = metric(running, kWrong);
  const Said reported = report(running, said);
  EXPECT_EQ(reported.status, 200U) << reported.body;
  EXPECT_EQ(json::parse(reported.body)["match_level"], "similarity");
  EXPECT_EQ(metric(running, kWrong), wrong + 1);
  EXPECT_EQ(metric(running, kDemotions), 0) << "nothing was verified";
  EXPECT_EQ(metric(running, R"(afterimage_reported_wrong_total{match_level="similarity"})"), 1);
  EXPECT_EQ(report(running, said).status, 404U) << "once";
  EXPECT_EQ(metric(running, kWrong), wrong + 1);
  const int asked = running.model.asked();
  EXPECT_FALSE(by_similarity(running.chat(reworded)));
  EXPECT_EQ(running.model.asked(), asked + 1);
}

TEST(SimilarAnswers, NeighboursOfAReportedAnswerAreSuspected) {
  Running running(kOn);
  know_rivers(running.model);
  ASSERT_GT(teach(running), 5);
  // The model's own answer is reported: no match level served it.
  const Said own = running.chat(
      testing::question("On which river does the old town of zadar lie exactly and truly?"),
      "Cache-Control: no-cache\r\n");
  ASSERT_EQ(json::parse(report(running, own).body)["match_level"], "");
  EXPECT_EQ(metric(running, kDemotions), 0);
  EXPECT_FALSE(by_similarity(
      running.chat(testing::question("On which river does the old town of zadar lie there?"))))
      << "its neighbour is judged by its own evidence";
  EXPECT_TRUE(by_similarity(
      running.chat(testing::question("On which river does the old town of ystad lie there?"))));
}

TEST(SimilarAnswers, CandidatesAndEvidenceOutliveTheProcess) {
  const testing::TemporaryFolder folder;
  Running running(std::string(kOn) + "[memory]\ndisk = \"" + folder.path() +
                  "\"\ndisk_size = \"64 MiB\"\n");
  know_rivers(running.model);
  ASSERT_GT(teach(running, "", wait_kept), 5);
  const int asked = running.model.asked();
  running.service.reset();
  running.service = running.start();
  const Said said =
      running.chat(testing::question("On which river does the old town of zadar lie there?"));
  EXPECT_TRUE(by_similarity(said)) << "the first request of the new process";
  EXPECT_EQ(text_of(said), "the zadar");
  EXPECT_EQ(running.model.asked(), asked);
  EXPECT_GT(metric(running, R"(afterimage_similarity_archive_total{event="restored"})"), 20);
  EXPECT_EQ(metric(running, R"(afterimage_similarity_archive_total{event="failed"})"), 0);
}

TEST(SimilarAnswers, OneTenantOrOneRequestMayRefuseThem) {
  Running running(std::string(kOn) +
                  "[[tenancy.tenants]]\nname = \"strict\"\nkey_sha256 = "
                  "[\"2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683\"]\n"
                  "similarity = false\n");  // of "key"
  know_rivers(running.model);
  EXPECT_EQ(teach(running, "Authorization: Bearer key\r\n"), 0);
  EXPECT_GT(teach(running, "Authorization: Bearer another\r\n"), 0);
  EXPECT_EQ(teach(running, "X-Afterimage-Cache: canonical\r\n"), 0);
}

TEST(SimilarAnswers, WhereOnlyExactMatchesAreAllowedThereAreNone) {
  Running running(std::string(kOn) + "[answers]\nmatch_level = \"exact\"\n");
  know_rivers(running.model);
  EXPECT_EQ(teach(running), 0);
}

TEST(SimilarAnswers, AnotherScopeIsNeverSimilar) {
  Running running(kOn);
  know_rivers(running.model);
  ASSERT_GT(teach(running), 5);
  const std::string other =
      R"({"model":"other","temperature":0,"messages":[{"role":"user",)"
      R"("content":"On which river does the old town of zadar lie please?"}]})";
  EXPECT_FALSE(by_similarity(running.chat(other)));
}

TEST(SimilarAnswers, WithoutItsEmbedderAnswersComeFromTheModel) {
  Running running("[similarity]\nmode = \"on\"\nembedder = \"http://127.0.0.1:1/v1/embeddings\"\n");
  know_rivers(running.model);
  EXPECT_EQ(teach(running), 0);
  EXPECT_EQ(running.model.asked(), 2 * static_cast<int>(kTowns.size()));
}

}  // namespace
}  // namespace afterimage
