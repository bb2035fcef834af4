// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/replay/replay_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/replay/replay_page.h"

namespace afterimage {
namespace {

ReplayReport report(const std::string& name = "talk <1>.jsonl") {
  Trace trace{.block_tokens = 512, .distinct_blocks = 1234};
  trace.requests.resize(2);
  trace.requests[0].input_tokens = 1'000;
  trace.requests[1].input_tokens = 900;
  trace.requests[1].at = std::chrono::minutes(59);
  trace.rejected.push_back({.number = 7, .error = {ErrorCode::kInvalidArgument, "not JSON"}});
  const auto result = [](const char* policy, const char* capacity, std::uint64_t blocks,
                         double hits) {
    return ReplayResult{.policy = policy,
                        .capacity = capacity,
                        .capacity_blocks = blocks,
                        .token_hit_ratio = hits,
                        .compute_saved_ratio = hits / 2};
  };
  return {name,
          trace,
          {.hint_error = 0.1},
          {result("lru", "1%", 12, 0.1), result("mine", "1%", 12, 0.26),
           result("min", "1%", 12, 0.5), result("infinite", "1%", 12, 0.6),
           result("lru", "50%", 617, 0.6), result("mine", "50%", 617, 0.55),
           result("min", "50%", 617, 0.6), result("infinite", "50%", 617, 0.6)}};
}

TEST(ReplayReport, GapsAreMeasuredBetweenLruAndMin) {
  const ReplayReport r = report();
  const auto gap = [&r](const char* policy, const char* capacity) {
    return r.gap_closed(*r.find(policy, capacity), &ReplayResult::token_hit_ratio);
  };
  EXPECT_DOUBLE_EQ(gap("lru", "1%").value(), 0);
  EXPECT_DOUBLE_EQ(gap("mine", "1%").value(), 0.4);
  EXPECT_DOUBLE_EQ(gap("min", "1%").value(), 1);
  EXPECT_EQ(gap("mine", "50%"), std::nullopt) << "lru already equals min there";
}

TEST(ReplayReport, TheTableDescribesTheTraceAndMarksTheBestPolicy) {
  EXPECT_EQ(to_table(report("talk.jsonl")),
            R"(talk.jsonl
2 requests in 59 min · 1,900 input tokens · 1,234 distinct blocks of 512
one hint per request (goes on / ends), wrong 10 % of the time

token hits %         1%             50%
lru                10.0            60.0*
mine               26.0*  +40 %    55.0
min                50.0            60.0
infinite           60.0            60.0

compute saved %      1%             50%
lru                 5.0            30.0*
mine               13.0*  +40 %    27.5
min                25.0            30.0
infinite           30.0            30.0

sizes in % of the distinct blocks · * best policy · +n %: share of the gap from lru to min closed
line 7 was not replayed: not JSON
)");
}

TEST(ReplayReport, CountsMediaReusedByPrefixOrEncoderCache) {
  Trace trace{.items = {{.tokens = 1}}};
  trace.requests.resize(4, {.input_tokens = 9, .media = {{.item = 0}, {.item = 0}}});
  // Of the six media after the warm-up one was encoded; the source of the others does not matter.
  const ReplayReport r("t", trace, {.warm_up = 0.25},
                       {{.policy = "lru", .capacity = "1%", .item_hits = 2, .item_misses = 1}});
  EXPECT_DOUBLE_EQ(r.media_reused(r.results[0]), 5.0 / 6);
  EXPECT_NE(to_table(r).find("media reused %"), std::string::npos);
  EXPECT_EQ(to_table(report()).find("media reused %"), std::string::npos)
      << "the trace has no media";
}

TEST(ReplayReport, JsonHasTheDocumentedNames) {
  const ReplayReport reports[] = {report()};
  const auto json = nlohmann::json::parse(to_json(reports));
  ASSERT_EQ(json.at("results").size(), 8U);
  const auto& mine = json.at("results")[1];
  EXPECT_EQ(mine.at("policy"), "mine");
  EXPECT_EQ(mine.at("capacity"), "1%");
  EXPECT_EQ(mine.at("token_hit_ratio"), 0.26);
  EXPECT_EQ(mine.at("compute_saved_ratio"), 0.13);
  EXPECT_DOUBLE_EQ(mine.at("gap_closed").get<double>(), 0.4);
  EXPECT_EQ(mine.at("trace"), "talk <1>.jsonl");
  EXPECT_TRUE(mine.at("bytes_moved").contains("read"));
  EXPECT_EQ(json.at("traces")[0].at("hint_error"), 0.1);
  EXPECT_EQ(json.at("traces")[0].at("rejected")[0].at("line"), 7);
}

TEST(ReplayPage, EscapesNamesAndFetchesNothing) {
  const ReplayReport reports[] = {report("<script>alert(1)</script> & \"co\".jsonl")};
  const std::string page = to_html(reports);
  EXPECT_NE(page.find("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;co&quot;.jsonl"),
            std::string::npos);
  for (const char* never : {"<script", "http://", "https://", "url(", "@import", "nan", "inf "}) {
    EXPECT_EQ(page.find(never), std::string::npos) << never;
  }
}

TEST(ReplayPage, DrawsOneCurvePerPolicyWithAPointPerCapacity) {
  const ReplayReport reports[] = {report()};
  const std::string page = to_html(reports);
  std::size_t points = 0;
  for (std::size_t at = 0; (at = page.find("<circle", at)) != std::string::npos; ++at) ++points;
  EXPECT_EQ(points, 2U * 4U * 2U);
  EXPECT_NE(page.find("mine at 1%: 74.0 % missed"), std::string::npos);
}

}  // namespace
}  // namespace afterimage
