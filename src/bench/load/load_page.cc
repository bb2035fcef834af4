// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "bench/load/load_report.h"
#include "bench/report/chart.h"

namespace afterimage {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Chart times_chart(const LoadReport& report, std::string title, LoadTimes LoadWindow::* which) {
  Chart chart{.title = std::move(title),
              .caption = "by when requests were due, in seconds",
              .x = {.name = "seconds", .unit = ChartUnit::kNumber},
              .y = {.name = "time", .unit = ChartUnit::kMilliseconds},
              .lines = {}};
  for (const auto& [name, value] :
       {std::pair("p50", &LoadTimes::p50), std::pair("p90", &LoadTimes::p90),
        std::pair("p99", &LoadTimes::p99)}) {
    ChartLine line{.name = name, .points = {}};
    for (const LoadWindow& window : report.windows) {
      const LoadTimes& times = window.*which;
      if (times.count == 0) continue;
      line.points.push_back({.x = window.from_s,
                             .y = to_milliseconds(times.*value),
                             .note = fmt::format("{} at {:.1f} s", name, window.from_s)});
    }
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

Chart rate_chart(const LoadReport& report) {
  Chart chart{.title = "Requests a second",
              .caption = "by when requests were due, in seconds",
              .x = {.name = "seconds", .unit = ChartUnit::kNumber},
              .y = {.name = "requests a second", .unit = ChartUnit::kNumber},
              .lines = {}};
  for (const auto& [name, value] : {std::pair("answered", &LoadWindow::answered_per_s),
                                    std::pair("failed", &LoadWindow::failed_per_s)}) {
    ChartLine line{.name = name, .points = {}};
    for (const LoadWindow& window : report.windows) {
      line.points.push_back({.x = window.from_s,
                             .y = window.*value,
                             .note = fmt::format("{} at {:.1f} s", name, window.from_s)});
    }
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

/// The rows of the table as two tables: counts, and times with their columns.
std::pair<Rows, Rows> tables_of(const LoadReport& report) {
  Rows counts = {{"", "value"}};
  Rows times;
  for (auto& row : report_rows(report)) {
    if (row.size() == 2)
      counts.push_back(std::move(row));
    else if (row.size() > 2)
      times.push_back(std::move(row));
  }
  return {std::move(counts), std::move(times)};
}

}  // namespace

std::string to_html(const LoadReport& report) {
  Page page("Load test", report.server);
  page.add_paragraph(report.load);
  const LoadContent& content = report.content;
  page.add_paragraph(fmt::format(
      "{} sessions with {} distinct pictures ({:.1f} MiB), {} of them shown by several sessions; "
      "prompts contain {} pictures, those of earlier turns included.",
      content.sessions, content.pictures,
      static_cast<double>(content.picture_bytes) / (1024.0 * 1024.0), content.shared,
      content.picture_uses));
  auto [counts, times] = tables_of(report);
  page.add_table(times);
  page.add_table(counts);
  if (!report.windows.empty()) {
    page.add_heading("Over time");
    const Chart charts[] = {times_chart(report, "Time to first token", &LoadWindow::first_token),
                            times_chart(report, "Latency", &LoadWindow::latency)};
    page.add_charts(charts);
    const Chart rate[] = {rate_chart(report)};
    page.add_charts(rate);
  }
  if (!report.failures.empty()) {
    page.add_heading("Failures");
    Rows rows = {{"message", "requests"}};
    for (const auto& [text, count] : report.failures) {
      rows.push_back({text, fmt::format("{}", count)});
    }
    page.add_table(rows);
  }
  page.add_heading("How this was measured");
  page.add_paragraph(
      "Times count from when a request was due. Time to first token ends at the first text of a "
      "stream, time per output token is the rest of the stream divided by its further tokens, "
      "latency ends with the response. Times are of answered requests; failures are counted "
      "beside them.");
  return page.html();
}

}  // namespace afterimage
