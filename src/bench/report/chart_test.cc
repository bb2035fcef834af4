// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/report/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace afterimage {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Chart chart() {
  return {
      .title = "Rate",
      .caption = "of everything",
      .x = {.name = "threshold"},
      .y = {.name = "served", .unit = ChartUnit::kPercent},
      .lines = {{.name = "measured", .points = {{0.5, 0.2, "here"}, {0.9, 0.1, "there"}}},
                {.name = "allowed", .points = {{0.5, 0.01, ""}, {0.9, 0.01, ""}}, .bound = true}}};
}

TEST(Page, DrawsLinesWithTooltips) {
  Page page("Sweep", "What came of it.");
  const Chart one = chart();
  page.add_charts(std::span(&one, 1));
  const std::string html = page.html();
  EXPECT_THAT(html, HasSubstr("<title>measured: there</title>"));
  EXPECT_THAT(html, HasSubstr("curve bound"));
  EXPECT_THAT(html, HasSubstr("20 %"));
  EXPECT_THAT(html, HasSubstr("threshold</text>"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("http")));
}

TEST(Page, EscapesText) {
  Page page("<b>", "a & b");
  page.add_heading("<script>alert(1)</script>");
  const std::vector<std::vector<std::string>> rows{{"name", "n"}, {"\"x\" <y>", "1"}};
  page.add_table(rows);
  Chart one = chart();
  one.lines[0].name = "<i>";
  page.add_charts(std::span(&one, 1));
  const std::string html = page.html();
  EXPECT_THAT(html, HasSubstr("<title>&lt;b&gt;</title>"));
  EXPECT_THAT(html, HasSubstr("<td>&quot;x&quot; &lt;y&gt;</td>"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("<i>")));
}

// No points, one point and equal points are drawn without division by zero.
TEST(Page, DrawsChartsWithAlmostNoData) {
  for (const std::vector<ChartPoint>& points :
       {std::vector<ChartPoint>{}, {{0, 0, ""}}, {{1, 5, ""}, {1, 5, ""}}, {{3, -2, ""}}}) {
    Chart one = chart();
    one.lines = {{.name = "few", .points = points}};
    Page page("Few", "");
    page.add_charts(std::span(&one, 1));
    EXPECT_THAT(page.html(), Not(HasSubstr("nan")));
    EXPECT_THAT(page.html(), Not(HasSubstr("inf")));
  }
}

}  // namespace
}  // namespace afterimage
