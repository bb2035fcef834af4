// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/sweep_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/report/chart.h"
#include "lab/experiment/experiment_report.h"
#include "lab/experiment/spec.h"

namespace afterimage {
namespace {

/// A row of the log, accessed by column name.
class LoggedRun {
 public:
  explicit LoggedRun(const CsvRow& row) {
    static const CsvRow kColumns = sweep_columns();
    for (std::size_t i = 0; i < std::min(row.size(), kColumns.size()); ++i) {
      cells_[kColumns[i]] = row[i];
    }
  }
  [[nodiscard]] const std::string& text(const std::string& column) const {
    static const std::string kNone;
    const auto it = cells_.find(column);
    return it == cells_.end() ? kNone : it->second;
  }
  [[nodiscard]] double number(const std::string& column) const {
    const std::string& cell = text(column);
    double value = 0;
    std::from_chars(cell.data(), cell.data() + cell.size(), value);
    return value;
  }
  [[nodiscard]] double matched() const { return number("served") + number("matched_not_used"); }
  [[nodiscard]] double wrong() const { return number("wrong_served") + number("wrong_matched"); }
  /// Answers come from the data set.
  [[nodiscard]] bool is_of_oracle() const {
    return text("engine").empty() || text("engine") == "oracle";
  }
  /// "oracle", or without the folder of its file.
  [[nodiscard]] std::string engine() const {
    return is_of_oracle() ? "oracle" : text("engine").substr(text("engine").rfind('/') + 1);
  }
  /// Share of matches that are wrong; 0 without matches.
  [[nodiscard]] double wrong_rate() const { return matched() > 0 ? wrong() / matched() : 0; }

 private:
  std::map<std::string, std::string> cells_;
};

/// The curve to which a run belongs, and its threshold.
std::optional<std::pair<std::string, double>> curve_of(const LoggedRun& run) {
  std::string model = run.text("preset").empty() ? run.text("model") : run.text("preset");
  if (!run.is_of_oracle()) model = run.engine();
  std::vector<LayerSpec> layers;
  std::string_view rest = run.text("embedding_layers");
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (auto layer = parse_layer(rest.substr(0, comma))) layers.push_back(*std::move(layer));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (!layers.empty()) {
    std::string name = fmt::format("{}, {}", model, layers[0].name);
    for (std::size_t i = 1; i < layers.size(); ++i) {
      name += fmt::format(" with {} {}", layers[i].name, layers[i].threshold);
    }
    return std::pair(name, layers[0].threshold);
  }
  if (run.text("enable_semantic_text_cache") != "True") return std::nullopt;
  return std::pair(model + ", text", run.number("similarity_threshold"));
}

using RunMeasure = std::function<std::optional<double>(const LoggedRun&)>;

/// One line per kind of run, over its thresholds; runs without this measure are left out.
std::vector<ChartLine> lines_of(std::span<const LoggedRun> runs, const RunMeasure& measure) {
  std::map<std::string, ChartLine> lines;
  for (const LoggedRun& run : runs) {
    const auto place = curve_of(run);
    const std::optional<double> value = measure(run);
    if (!place.has_value() || !value.has_value()) continue;
    ChartLine& line = lines[place->first];
    line.name = place->first;
    line.points.push_back({.x = place->second, .y = *value, .note = run.text("experiment")});
  }
  std::vector<ChartLine> sorted;
  for (auto& [name, line] : lines) {
    std::ranges::stable_sort(line.points, {}, &ChartPoint::x);
    sorted.push_back(std::move(line));
  }
  return sorted;
}

std::vector<Chart> share_charts(std::span<const LoggedRun> runs) {
  const ChartAxis threshold{.name = "threshold of the first layer"};
  const ChartAxis percent{.name = "", .unit = ChartUnit::kPercent};
  return {{.title = "Matched",
           .caption = "share of all prompts: served or, in a dry run, matched",
           .x = threshold,
           .y = percent,
           .lines = lines_of(
               runs, [](const LoggedRun& run) { return std::optional(run.number("match_rate")); })},
          {.title = "Wrong",
           .caption = "share of the matches",
           .x = threshold,
           .y = percent,
           .lines = lines_of(
               runs, [](const LoggedRun& run) { return std::optional(run.wrong_rate()); })}};
}

/// A source's mean latency in a run, in seconds.
std::optional<double> latency_of(const LoggedRun& run, const std::string& source) {
  const auto means = nlohmann::json::parse(run.text("latency_by_source"), nullptr, false);
  if (!means.is_object() || !means.contains(source) || !means[source].is_number()) {
    return std::nullopt;
  }
  return means[source].get<double>();
}

std::vector<std::string> sources_of(std::span<const LoggedRun> runs) {
  std::map<std::string, bool> sources;
  for (const LoggedRun& run : runs) {
    const auto means = nlohmann::json::parse(run.text("latency_by_source"), nullptr, false);
    if (!means.is_object()) continue;
    for (const auto& [source, mean] : means.items()) sources[source] = true;
  }
  std::vector<std::string> names;
  for (const auto& [source, known] : sources) names.push_back(source);
  return names;
}

/// One line per match level, over the runs in order.
Chart latency_chart(std::span<const LoggedRun> runs) {
  Chart chart{
      .title = "Latency by match level",
      .caption = std::ranges::all_of(runs, &LoggedRun::is_of_oracle)
                     ? "from the look-up to the answer; the engine is an oracle that takes no "
                       "time, so its line shows the cost of a miss"
                     : "from the look-up to the answer",
      .x = {.name = "experiment, in log order"},
      .y = {.name = "", .unit = ChartUnit::kMilliseconds},
      .lines = {}};
  for (const std::string& source : sources_of(runs)) {
    ChartLine line{.name = source, .points = {}};
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto seconds = latency_of(runs[i], source);
      if (!seconds.has_value()) continue;
      line.points.push_back(
          {.x = static_cast<double>(i + 1),
           .y = 1e3 * *seconds,
           .note = fmt::format("{}, {:.1f} µs", runs[i].text("experiment"), 1e6 * *seconds)});
    }
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

std::vector<std::vector<std::string>> run_table(std::span<const LoggedRun> runs) {
  std::vector<std::vector<std::string>> rows{{"experiment", "engine", "mode", "prompts", "served",
                                              "matched, not served", "match rate", "wrong",
                                              "wrong of matched", "accuracy", "mean latency"}};
  for (const LoggedRun& run : runs) {
    rows.push_back({run.text("experiment"), run.engine(), run.text("cache_mode"),
                    run.text("total_prompts"), run.text("served"), run.text("matched_not_used"),
                    fmt::format("{:.1f} %", 100 * run.number("match_rate")),
                    fmt::format("{:.0f}", run.wrong()),
                    fmt::format("{:.1f} %", 100 * run.wrong_rate()),
                    fmt::format("{:.3f}", run.number("answer_accuracy")),
                    fmt::format("{:.1f} µs", 1e6 * run.number("avg_latency"))});
  }
  return rows;
}

}  // namespace

std::string sweep_page(std::span<const CsvRow> rows) {
  std::vector<LoggedRun> runs;
  for (const CsvRow& row : rows) runs.emplace_back(row);
  Page page(fmt::format("{} experiments", runs.size()),
            std::ranges::all_of(runs, &LoggedRun::is_of_oracle)
                ? "Answers come from the data set (oracle), no model is run: every wrong answer "
                  "is caused by reuse."
                : "Wrong: another answer than the engine itself gives.");
  page.add_charts(share_charts(runs));
  page.add_charts(std::vector{latency_chart(runs)});
  page.add_heading("All experiments");
  page.add_table(run_table(runs));
  return page.html();
}

}  // namespace afterimage
