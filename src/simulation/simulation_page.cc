// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include "afterimage/lab/chart.h"
#include "afterimage/lab/run_report.h"
#include "afterimage/simulation/simulation_report.h"

namespace afterimage {
namespace {

double hours(Duration d) { return in_seconds(d) / 3600; }

using Measure = double (*)(const SimulationWindow&);

Chart over_time(const SimulationReport& report, std::string title, std::string caption,
                ChartAxis axis, Measure measure) {
  Chart chart{.title = std::move(title),
              .caption = std::move(caption),
              .x = {.name = "hours simulated", .unit = ChartUnit::kNumber},
              .y = std::move(axis),
              .lines = {}};
  for (const SimulatedCluster& cluster : report.clusters) {
    ChartLine line{.name = cluster.name, .points = {}};
    for (const SimulationWindow& window : cluster.result.windows) {
      if (window.requests == 0) continue;
      line.points.push_back(
          {.x = hours(window.until),
           .y = measure(window),
           .note = fmt::format("{}, {:.2f} h", cluster.name, hours(window.until))});
    }
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

std::string percent(std::uint64_t n, std::uint64_t of) {
  return of == 0
             ? ""
             : fmt::format("{:.1f} %", 100.0 * static_cast<double>(n) / static_cast<double>(of));
}

std::vector<std::vector<std::string>> rows(const SimulationReport& report) {
  std::vector<std::vector<std::string>> rows = {{"", "images covered", "memory", "awaited", "disk",
                                                 "remote", "encoded", "declined",
                                                 "tokens prefilled", "p50 ms", "p99 ms", "p99.9 ms",
                                                 "compute saved", "to nodes", "to shards"}};
  for (const SimulatedCluster& cluster : report.clusters) {
    const SimulationResult& r = cluster.result;
    const std::uint64_t images = r.images.lookups + r.images.covered;
    const auto ms = [&](double share) {
      return fmt::format("{:.1f}", to_milliseconds(r.first_token.quantile(share)));
    };
    rows.push_back({cluster.name, percent(r.images.covered, images),
                    percent(r.images.memory, images), percent(r.images.awaited, images),
                    percent(r.images.disk, images), percent(r.images.remote, images),
                    percent(r.images.computed, images), percent(r.images.declined, images),
                    percent(r.kv.computed, r.kv.input), ms(0.5), ms(0.99), ms(0.999),
                    fmt::format("{:.0f} s", r.compute_seconds_saved), readable(r.bytes.into_nodes),
                    readable(r.bytes.into_shards)});
  }
  return rows;
}

}  // namespace

std::string to_html(const SimulationReport& report) {
  Page page("Simulation", report.traffic);
  const Chart charts[] = {
      over_time(report, "Images not encoded", "the part that some tier had, over time",
                {.name = "of all images", .unit = ChartUnit::kPercent},
                [](const SimulationWindow& window) { return window.saved_part(); }),
      over_time(report, "Compute", "of encoding and prefill, by request",
                {.name = "a request", .unit = ChartUnit::kMilliseconds},
                [](const SimulationWindow& window) {
                  return 1e3 * window.compute_seconds / static_cast<double>(window.requests);
                })};
  page.add_charts(charts);
  page.add_table(rows(report));
  page.add_heading("Assumed");
  for (const std::string& line : report.assumptions) page.add_paragraph(line);
  for (const SimulatedCluster& cluster : report.clusters) {
    page.add_heading(cluster.name);
    for (const std::string& line : assumptions(cluster.result.options)) page.add_paragraph(line);
  }
  return page.html();
}

}  // namespace afterimage
