// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/experiment/sweep_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/experiment/experiment_report.h"
#include "afterimage/experiment/spec.h"

namespace afterimage {
namespace {

constexpr const char* kPageHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sweep</title>
<style>
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1e21; --dim: #62676e; --line: #dfe2e6;
  --s0: #0072b2; --s1: #d55e00; --s2: #009e73; --s3: #cc79a7; --s4: #b58900; --s5: #56b4e9;
  --s6: #8457b8; --s7: #a33b3b; }
@media (prefers-color-scheme: dark) { :root { --paper: #15171a; --ink: #e7e9ec; --dim: #9aa1aa;
  --line: #30343a; --s0: #4aa8e8; --s1: #ff8a3d; --s2: #2fd0a2; --s3: #e79cc6; --s4: #e0b83c;
  --s5: #8fd0f7; --s6: #b592e6; --s7: #e07a7a; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .2rem; }
h3 { font-size: 1rem; margin: 0; } p { margin: .3rem 0; } p.dim, figcaption { color: var(--dim); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1.5rem;
  margin: 1.2rem 0 .4rem; } figure { margin: 0; } svg { width: 100%; height: auto; display: block; }
svg text { font-size: 12px; fill: var(--dim); } .grid { stroke: var(--line); }
.curve path { fill: none; stroke-width: 2; stroke: var(--c); }
.curve circle { fill: var(--c); } rect { fill: var(--s0); }
.s0 { --c: var(--s0); } .s1 { --c: var(--s1); } .s2 { --c: var(--s2); } .s3 { --c: var(--s3); }
.s4 { --c: var(--s4); } .s5 { --c: var(--s5); } .s6 { --c: var(--s6); } .s7 { --c: var(--s7); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: 0; list-style: none; }
.legend svg { display: inline-block; width: 28px; height: 10px; margin-right: .4rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums;
  width: 100%; } th, td { padding: .2rem .7rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); } th { color: var(--dim); font-weight: 500; }
th:first-child, td:first-child { text-align: left; } tr.wrong td { color: var(--s7); }
</style>
</head>
<body>
)";

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

/// A row of the log, by the names of its columns.
class LoggedRun {
 public:
  explicit LoggedRun(const CsvRow& row) {
    const CsvRow columns = sweep_columns();
    for (std::size_t i = 0; i < std::min(row.size(), columns.size()); ++i) {
      cells_[columns[i]] = row[i];
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
  /// Of what was matched; nothing matched, nothing wrong.
  [[nodiscard]] double wrong_rate() const { return matched() > 0 ? wrong() / matched() : 0; }

 private:
  std::map<std::string, std::string> cells_;
};

struct PlotPoint {
  double x = 0;
  double y = 0;
  std::string name;
};
/// Points of one curve, in order of x.
struct PlotCurve {
  std::string name;
  std::vector<PlotPoint> points;
};

/// Where a run belongs: with its threshold on the curve of its kind.
std::optional<std::pair<std::string, double>> curve_of(const LoggedRun& run) {
  const std::string model = run.text("preset").empty() ? run.text("model") : run.text("preset");
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

std::vector<PlotCurve> curves_of(std::span<const LoggedRun> runs,
                                 const std::function<double(const LoggedRun&)>& measure) {
  std::map<std::string, PlotCurve> curves;
  for (const LoggedRun& run : runs) {
    const auto place = curve_of(run);
    if (!place.has_value()) continue;
    PlotCurve& curve = curves[place->first];
    curve.name = place->first;
    curve.points.push_back({.x = place->second, .y = measure(run), .name = run.text("experiment")});
  }
  std::vector<PlotCurve> sorted;
  for (auto& [name, curve] : curves) {
    std::ranges::stable_sort(curve.points, {}, &PlotPoint::x);
    sorted.push_back(std::move(curve));
  }
  return sorted;
}

/// Shares over thresholds.
class SharePlot {
 public:
  explicit SharePlot(const std::vector<PlotCurve>& curves) : curves_(curves) {
    for (const PlotCurve& curve : curves) {
      for (const PlotPoint& point : curve.points) {
        left_ = std::min(left_, point.x);
        right_ = std::max(right_, point.x);
        top_ = std::max(top_, point.y);
      }
    }
    top_ = std::max(std::ceil(top_ * 10) / 10, 0.1);
    if (right_ <= left_) left_ = right_ - 0.1;
  }

  [[nodiscard]] std::string draw() const {
    std::string out = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img">)", kWidth, kHeight);
    for (int step = 0; step <= 5; ++step) {
      const double share = top_ * step / 5;
      out += fmt::format(
          R"(<path class="grid" d="M{} {:.1f}H{}"/><text x="{}" y="{:.1f}" text-anchor="end">{:.0f} %</text>)",
          kLeft, y(share), kWidth - kRight, kLeft - 6, y(share) + 4, 100 * share);
    }
    for (int step = 0; step <= 4; ++step) {
      const double threshold = left_ + (right_ - left_) * step / 4;
      out += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{:.2f}</text>)",
                         x(threshold), kHeight - 12, threshold);
    }
    for (std::size_t i = 0; i < curves_.size(); ++i) out += draw_curve(curves_[i], i);
    return out + "</svg>\n";
  }

 private:
  static constexpr double kWidth = 560, kHeight = 330;
  static constexpr double kLeft = 46, kRight = 20, kTop = 12, kBottom = 34;

  [[nodiscard]] double x(double threshold) const {
    return kLeft + (threshold - left_) / (right_ - left_) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double share) const {
    return kTop + (top_ - share) / top_ * (kHeight - kTop - kBottom);
  }
  [[nodiscard]] std::string draw_curve(const PlotCurve& curve, std::size_t number) const {
    std::string path;
    std::string dots;
    for (const PlotPoint& point : curve.points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(point.x), y(point.y));
      dots += fmt::format(
          R"(<circle cx="{:.1f}" cy="{:.1f}" r="3.2"><title>{}: {:.1f} %</title></circle>)",
          x(point.x), y(point.y), html_text(point.name), 100 * point.y);
    }
    return fmt::format(R"(<g class="curve s{}"><path d="{}"/>{}</g>)", number % 8, path, dots);
  }

  const std::vector<PlotCurve>& curves_;
  double left_ = 1, right_ = 0, top_ = 0;
};

void add_share_figure(std::string& out, std::span<const LoggedRun> runs, std::string_view title,
                      std::string_view caption,
                      const std::function<double(const LoggedRun&)>& measure) {
  const std::vector<PlotCurve> curves = curves_of(runs, measure);
  out += fmt::format("<figure>\n<h3>{}</h3>\n{}<figcaption>{}</figcaption>\n</figure>\n", title,
                     SharePlot(curves).draw(), caption);
}

void add_curve_names(std::string& out, std::span<const LoggedRun> runs) {
  const auto curves = curves_of(runs, &LoggedRun::matched);
  out += "<ul class=\"legend\">\n";
  for (std::size_t i = 0; i < curves.size(); ++i) {
    out += fmt::format(
        R"(<li><svg viewBox="0 0 28 10" aria-hidden="true"><g class="curve s{}"><path d="M0 5H28"/></g></svg>{}</li>)",
        i % 8, html_text(curves[i].name));
    out += "\n";
  }
  out += "</ul>\n";
}

/// Mean latency of each source over all runs, weighted by how many there were.
std::map<std::string, double> latencies(std::span<const LoggedRun> runs) {
  std::map<std::string, std::pair<double, double>> sums;
  for (const LoggedRun& run : runs) {
    const auto means = nlohmann::json::parse(run.text("latency_by_source"), nullptr, false);
    const auto counts = nlohmann::json::parse(run.text("match_breakdown"), nullptr, false);
    if (!means.is_object() || !counts.is_object()) continue;
    for (const auto& [source, mean] : means.items()) {
      if (!mean.is_number()) continue;
      const auto it = counts.find(source);
      const double count = source == "engine" ? run.number("total_prompts") - run.number("served")
                           : it != counts.end() && it->is_number() ? it->get<double>()
                                                                   : 0;
      sums[source].first += mean.get<double>() * count;
      sums[source].second += count;
    }
  }
  std::map<std::string, double> all;
  for (const auto& [source, sum] : sums) {
    if (sum.second > 0) all[source] = sum.first / sum.second;
  }
  return all;
}

void add_latency_figure(std::string& out, std::span<const LoggedRun> runs) {
  constexpr double kRow = 26, kLabel = 190, kWidth = 560;
  const std::map<std::string, double> means = latencies(runs);
  double most = 0;
  for (const auto& [source, mean] : means) most = std::max(most, mean);
  out += fmt::format("<figure>\n<h3>Latency by rung</h3>\n<svg viewBox=\"0 0 {} {}\" role=\"img\">",
                     kWidth, kRow * static_cast<double>(std::max<std::size_t>(means.size(), 1)));
  double top = 0;
  for (const auto& [source, mean] : means) {
    const double width = most > 0 ? mean / most * (kWidth - kLabel - 90) : 0;
    out += fmt::format(
        R"(<text x="{}" y="{}" text-anchor="end">{}</text><rect x="{}" y="{}" width="{:.1f}" height="{}"/><text x="{:.1f}" y="{}">{:.1f} µs</text>)",
        kLabel - 8, top + 17, html_text(source), kLabel, top + 4, width, kRow - 10,
        kLabel + width + 6, top + 17, 1e6 * mean);
    top += kRow;
  }
  out +=
      "</svg>\n<figcaption>from the look-up to the answer, on the mean of all runs; the engine is "
      "an oracle that takes no time, so its bar is what looking in vain takes</figcaption>\n"
      "</figure>\n";
}

void add_run_table(std::string& out, std::span<const LoggedRun> runs) {
  out +=
      "<div class=\"wide\"><table>\n<tr><th>experiment</th><th>mode</th><th>prompts</th>"
      "<th>served</th><th>matched, not served</th><th>match rate</th><th>wrong</th>"
      "<th>wrong of matched</th><th>accuracy</th><th>mean latency</th></tr>\n";
  for (const LoggedRun& run : runs) {
    out += fmt::format(
        "<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1f} %</td>"
        "<td>{:.0f}</td><td>{:.1f} %</td><td>{:.3f}</td><td>{:.1f} µs</td></tr>\n",
        run.wrong() > 0 ? " class=\"wrong\"" : "", html_text(run.text("experiment")),
        html_text(run.text("cache_mode")), html_text(run.text("total_prompts")),
        html_text(run.text("served")), html_text(run.text("matched_not_used")),
        100 * run.number("match_rate"), run.wrong(), 100 * run.wrong_rate(),
        run.number("answer_accuracy"), 1e6 * run.number("avg_latency"));
  }
  out += "</table></div>\n";
}

}  // namespace

std::string sweep_page(std::span<const CsvRow> rows) {
  std::vector<LoggedRun> runs;
  for (const CsvRow& row : rows) runs.emplace_back(row);
  std::string out = kPageHead;
  out += fmt::format("<h1>{} experiments</h1>\n", runs.size());
  out +=
      "<p class=\"dim\">The oracle answers with the data set's own answers, no model is run: "
      "whatever is wrong is reuse's. Matched is what was served, or in a dry run would have "
      "been.</p>\n<div class=\"plots\">\n";
  add_share_figure(out, runs, "Matched", "of all prompts, over the threshold of the first layer",
                   [](const LoggedRun& run) { return run.number("match_rate"); });
  add_share_figure(out, runs, "Wrong", "of what was matched, over the same threshold",
                   [](const LoggedRun& run) { return run.wrong_rate(); });
  out += "</div>\n";
  add_curve_names(out, runs);
  out += "<div class=\"plots\">\n";
  add_latency_figure(out, runs);
  out += "</div>\n<h2>All of them</h2>\n";
  add_run_table(out, runs);
  return out + "</body>\n</html>\n";
}

}  // namespace afterimage
