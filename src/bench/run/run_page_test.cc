// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/run/run_page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/run/run_report.h"
#include "testing/media_files.h"
#include "testing/tiny_engine.h"

namespace afterimage {
namespace {

struct Fixture {
  SystemClock clock;
  std::unique_ptr<ReferenceEngine> engine = testing::tiny_engine(clock);
  Workload workload;

  explicit Fixture(int requests) {
    for (int i = 0; i < requests; ++i) {
      const MediaItem item = testing::media_item(
          Modality::kImage, testing::make_png(testing::make_picture(40, 30, 1)), "picture");
      workload.requests.push_back(
          {.id = RequestId("r" + std::to_string(i)),
           .hints = {.agent = "x"},
           .messages = {{.role = Role::kUser, .parts = {item, std::string("Is 1 < 2?")}}}});
    }
  }
  [[nodiscard]] RunReport run() const {
    return run_workload(workload, *engine, {.generate = {.max_tokens = TokenCount(2)}}, clock)
        .value();
  }
};

TEST(RunPage, ShowsPictureQuestionAnswerAndWhatWasReused) {
  const Fixture f(2);
  const std::string page = to_page(f.run(), f.workload);
  EXPECT_NE(page.find("src=\"data:image/png;base64,iVBOR"), std::string::npos);
  EXPECT_NE(page.find("Is 1 &lt; 2?"), std::string::npos);
  EXPECT_EQ(page.find("Is 1 < 2?"), std::string::npos);
  EXPECT_NE(page.find("media: encoded"), std::string::npos);
  EXPECT_NE(page.find("media: covered"), std::string::npos);
  EXPECT_EQ(page.find("expected"), std::string::npos);
}

TEST(RunPage, ShowsWrongAnswersFirst) {
  Fixture f(3);
  const std::string said = f.run().requests.front().text;
  f.workload.expected = {{RequestId("r0"), said}, {RequestId("r2"), "something else"}};
  const RunReport report = f.run();
  const std::string page = to_page(report, f.workload);
  EXPECT_NE(page.find("wrong; expected: something else"), std::string::npos);
  EXPECT_LT(page.find("r2 by x"), page.find("r0 by x"));
  EXPECT_LT(page.find("r0 by x"), page.find("r1 by x"));
}

TEST(RunPage, ShowsAtMostTwoHundredRequests) {
  const Fixture f(2);
  RunReport report = f.run();
  while (report.requests.size() < 500) report.requests.push_back(report.requests.back());
  const std::string page = to_page(report, f.workload);
  EXPECT_NE(page.find("200 of 500 answered requests"), std::string::npos);
}

TEST(RunPage, CountsRightAnswersInEveryPass) {
  Fixture f(3);
  const std::string said = f.run().requests.front().text;
  f.workload.expected = {{RequestId("r0"), "  " + said + "\n"}, {RequestId("r1"), said + "x"}};
  const RunReport report = f.run();
  EXPECT_EQ(report.judged, 2U);
  EXPECT_EQ(report.cold.right, 1U);
  EXPECT_EQ(report.warm.right, 1U);
  EXPECT_NE(to_table(report).find("answers right"), std::string::npos);
  EXPECT_NE(to_table(report).find("1 of 2"), std::string::npos);
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json.at("answers_judged"), 2);
  EXPECT_EQ(json.at("answers_right").at("encode_once"), 1);
  EXPECT_EQ(json.at("per_request")[1].at("expected"), said + "x");
  EXPECT_TRUE(json.at("per_request")[2].at("expected").is_null());
  EXPECT_EQ(to_table(Fixture(1).run()).find("answers right"), std::string::npos);
}

}  // namespace
}  // namespace afterimage
