// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <span>

#include "bench/report/chart.h"
#include "foundation/text/quantities.h"
#include "lab/simulation/simulation_report.h"

namespace afterimage {
namespace {

/// A curve with one point per cluster, in the order of the report.
struct Curve {
  const char* name;
  double (*of)(const SimulatedCluster&);
};

Chart by_cluster(const SimulationReport& report, std::string title, std::string caption,
                 ChartAxis axis, std::span<const Curve> curves) {
  const bool by_nodes =
      std::ranges::is_sorted(report.clusters, std::less(),
                             [](const auto& c) { return c.result.options.nodes; }) &&
      report.clusters.front().result.options.nodes < report.clusters.back().result.options.nodes;
  Chart chart{
      .title = std::move(title),
      .caption = std::move(caption),
      .x = {.name = by_nodes ? "nodes" : "cluster, in table order", .unit = ChartUnit::kNumber},
      .y = std::move(axis),
      .lines = {}};
  for (const Curve& curve : curves) {
    ChartLine line{.name = curve.name, .points = {}};
    for (std::size_t i = 0; i < report.clusters.size(); ++i) {
      const SimulatedCluster& cluster = report.clusters[i];
      const double x = by_nodes ? cluster.result.options.nodes : static_cast<double>(i + 1);
      line.points.push_back({.x = x, .y = curve.of(cluster), .note = cluster.name});
    }
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

double share(std::uint64_t n, std::uint64_t of) {
  return of == 0 ? 0 : static_cast<double>(n) / static_cast<double>(of);
}
double images_of(const SimulatedCluster& c, std::uint64_t ImageCounts::* count) {
  return share(c.result.images.*count, c.result.images.lookups + c.result.images.covered);
}

double tokens_of(const SimulatedCluster& c, std::uint64_t KvCounts::* count) {
  return share(c.result.kv.*count, c.result.kv.input);
}

// The two charts are shown side by side with one legend.
constexpr auto kWhereImagesAre = std::to_array<Curve>(
    {{"memory", [](const SimulatedCluster& c) { return images_of(c, &ImageCounts::memory); }},
     {"disk", [](const SimulatedCluster& c) { return images_of(c, &ImageCounts::disk); }},
     {"remote", [](const SimulatedCluster& c) { return images_of(c, &ImageCounts::remote); }},
     {"encoded or prefilled",
      [](const SimulatedCluster& c) { return images_of(c, &ImageCounts::computed); }},
     {"covered by a cached prefix (images)",
      [](const SimulatedCluster& c) { return images_of(c, &ImageCounts::covered); }}});

constexpr auto kWhereTokensAre = std::to_array<Curve>(
    {{"memory", [](const SimulatedCluster& c) { return tokens_of(c, &KvCounts::memory); }},
     {"disk", [](const SimulatedCluster& c) { return tokens_of(c, &KvCounts::disk); }},
     {"remote", [](const SimulatedCluster& c) { return tokens_of(c, &KvCounts::remote); }},
     {"encoded or prefilled",
      [](const SimulatedCluster& c) { return tokens_of(c, &KvCounts::computed); }}});

using Measure = double (*)(const SimulationWindow&);

Chart over_time(const SimulationReport& report, std::string title, std::string caption,
                ChartAxis axis, Measure measure) {
  Chart chart{.title = std::move(title),
              .caption = std::move(caption),
              .x = {.name = "share of the requests", .unit = ChartUnit::kPercent},
              .y = std::move(axis),
              .lines = {}};
  for (const SimulatedCluster& cluster : report.clusters) {
    ChartLine line{.name = cluster.name, .points = {}};
    // The x axis counts requests, not hours: all clusters get the same requests.
    std::uint64_t all = 0;
    for (const SimulationWindow& window : cluster.result.windows) all += window.requests;
    std::uint64_t done = 0;
    for (const SimulationWindow& window : cluster.result.windows) {
      done += window.requests;
      if (window.requests == 0) continue;
      line.points.push_back(
          {.x = share(done, all),
           .y = measure(window),
           .note = fmt::format("{}, {:.2f} h", cluster.name, in_seconds(window.until) / 3600)});
    }
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

/// The rows of to_table(): one column per cluster.
std::vector<std::vector<std::string>> rows(const SimulationReport& report) {
  std::vector<std::vector<std::string>> rows = {{""}};
  for (const SimulatedCluster& cluster : report.clusters) rows.front().push_back(cluster.name);
  for (auto& row : report_rows(report)) rows.push_back(std::move(row));
  return rows;
}

/// One summary line per cluster.
std::string summary_line(const SimulatedCluster& cluster) {
  const SimulationResult& r = cluster.result;
  const double all = r.compute_seconds + r.compute_seconds_saved;
  return fmt::format(
      "{}: {:.1f} % of the images are encoded, {:.1f} % of the compute is saved; time to first "
      "token is {:.0f} ms (p50), {:.0f} ms (p99); {} are read from the shards.",
      cluster.name, 100 * images_of(cluster, &ImageCounts::computed),
      all > 0 ? 100 * r.compute_seconds_saved / all : 0,
      to_milliseconds(r.first_token.quantile(0.5)), to_milliseconds(r.first_token.quantile(0.99)),
      readable(r.bytes.into_nodes));
}

}  // namespace

std::string to_html(const SimulationReport& report) {
  Page page("Cluster simulation", report.traffic);
  for (const SimulatedCluster& cluster : report.clusters) page.add_paragraph(summary_line(cluster));
  if (report.clusters.size() > 1) {
    const Chart where[] = {
        by_cluster(report, "Source of images", "share of all images",
                   {.name = "share of all images", .unit = ChartUnit::kPercent}, kWhereImagesAre),
        by_cluster(report, "Source of prompt tokens", "share of all tokens",
                   {.name = "share of all tokens", .unit = ChartUnit::kPercent}, kWhereTokensAre)};
    page.add_charts(where);
    page.add_heading("Over time");
  }
  const Chart charts[] = {
      over_time(report, "Images not encoded", "share found in some tier, over time",
                {.name = "share of all images", .unit = ChartUnit::kPercent},
                [](const SimulationWindow& window) { return window.saved_share(); }),
      over_time(report, "Compute", "encoding and prefill time per request",
                {.name = "per request", .unit = ChartUnit::kMilliseconds},
                [](const SimulationWindow& window) {
                  return 1e3 * window.compute_seconds / static_cast<double>(window.requests);
                }),
      over_time(report, "Slowest first token",
                "the longest time to first token in each part of the run",
                {.name = "time", .unit = ChartUnit::kMilliseconds},
                [](const SimulationWindow& window) { return to_milliseconds(window.latest); })};
  page.add_charts(charts);
  page.add_heading("All numbers");
  page.add_table(rows(report));
  page.add_heading("Assumptions");
  for (const std::string& line : report.assumptions) page.add_paragraph(line);
  // Printed once: clusters differ only in what their names say.
  if (report.clusters.empty()) return page.html();
  for (const std::string& line : assumptions(report.clusters.front().result.options)) {
    page.add_paragraph(line);
  }
  return page.html();
}

}  // namespace afterimage
