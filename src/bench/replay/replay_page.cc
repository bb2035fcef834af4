// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/replay/replay_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "bench/report/chart.h"
#include "foundation/text/quantities.h"

namespace afterimage {
namespace {

using Measure = double ReplayResult::*;

/// Style of this page only: bounds, and rows that begin a group.
constexpr std::string_view kOwnStyle = R"(
.infinite { stroke-dasharray: 2 4; }
th:nth-child(2), td:nth-child(2) { text-align: left; } tr.bound td { color: var(--dim); }
tr.first td { border-top: 2px solid var(--dim); } b { font-weight: 650; }
)";

constexpr std::string_view kHeading = R"(<h1>Miss ratios by policy</h1>
<p class="dim">Miss ratios by cache size, as a percentage of each trace's distinct blocks. No policy
can get below <em>min</em>, which knows the future; <em>infinite</em> never evicts.</p>
)";

/// The CSS classes of a policy's curve: bounds are black and dashed, lru is grey, others have a
/// colour.
std::string css_class(const ReplayReport& report, std::string_view policy) {
  if (policy == "min") return "curve bound";
  if (policy == "infinite") return "curve bound infinite";
  if (policy == "lru") return "curve s0";
  std::size_t colour = 0;
  for (const std::string& other : report.policies()) {
    if (other != "lru") ++colour;
    if (other == policy) break;
  }
  return fmt::format("curve s{}", 1 + (colour - 1) % 9);
}

/// Plots miss ratio over capacity; maps values to coordinates.
class Plot {
 public:
  Plot(const ReplayReport& report, Measure measure) : report_(report), measure_(measure) {
    low_ = 1;
    for (const ReplayResult& result : report.results) {
      low_ = std::min(low_, miss(result));
      high_ = std::max(high_, miss(result));
      smallest_ = std::min(smallest_, size(result));
      largest_ = std::max(largest_, size(result));
    }
    low_ = std::floor(low_ * 10) / 10;
    high_ = std::max(std::ceil(high_ * 10) / 10, low_ + 0.1);
  }

  [[nodiscard]] std::string draw() const {
    std::string out = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img">)", kWidth, kHeight);
    draw_grid(out);
    for (const std::string& policy : report_.policies()) draw_curve(out, policy);
    return out + "</svg>\n";
  }

 private:
  static constexpr double kWidth = 560, kHeight = 330;
  static constexpr double kLeft = 46, kRight = 14, kTop = 12, kBottom = 34;

  [[nodiscard]] double miss(const ReplayResult& result) const { return 1 - result.*measure_; }
  static double size(const ReplayResult& result) {
    return std::log(static_cast<double>(std::max<std::uint64_t>(result.capacity_blocks, 1)));
  }
  [[nodiscard]] double x(const ReplayResult& result) const {
    if (largest_ <= smallest_) return (kLeft + kWidth - kRight) / 2;
    return kLeft + (size(result) - smallest_) / (largest_ - smallest_) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double ratio) const {
    return kTop + (high_ - ratio) / (high_ - low_) * (kHeight - kTop - kBottom);
  }

  void draw_grid(std::string& out) const {
    const double step = high_ - low_ > 0.55 ? 0.2 : 0.1;
    for (double ratio = low_; ratio < high_ + 0.001; ratio += step) {
      out += fmt::format(
          R"(<path class="grid" d="M{} {:.1f}H{}"/><text x="{}" y="{:.1f}" text-anchor="end">{:.0f} %</text>)",
          kLeft, y(ratio), kWidth - kRight, kLeft - 6, y(ratio) + 4, 100 * ratio);
    }
    for (const std::string& capacity : report_.capacities()) {
      const auto it = std::ranges::find(report_.results, capacity, &ReplayResult::capacity);
      out += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x(*it),
                         kHeight - 12, html_text(capacity));
    }
  }

  void draw_curve(std::string& out, const std::string& policy) const {
    std::vector<const ReplayResult*> points;
    for (const ReplayResult& result : report_.results) {
      if (result.policy == policy) points.push_back(&result);
    }
    std::ranges::sort(points, {}, [](const ReplayResult* r) { return r->capacity_blocks; });
    std::string path;
    std::string dots;
    for (const ReplayResult* point : points) {
      const double ratio = miss(*point);
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(*point), y(ratio));
      dots += fmt::format(
          R"(<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="3.2"><title>{} at {}: {:.1f} % missed</title></circle>)",
          x(*point), y(ratio), html_text(policy), html_text(point->capacity), 100 * ratio);
    }
    out += fmt::format("<g class=\"{}\"><path d=\"{}\"/>{}</g>", css_class(report_, policy), path,
                       dots);
  }

  const ReplayReport& report_;
  Measure measure_;
  double low_ = 1, high_ = 0;
  double smallest_ = 1e9, largest_ = 0;
};

void add_figure(std::string& out, const ReplayReport& report, std::string_view title,
                std::string_view caption, Measure measure) {
  out += fmt::format("<figure>\n<h3>{}</h3>\n{}<figcaption>{}</figcaption>\n</figure>\n", title,
                     Plot(report, measure).draw(), caption);
}

void add_legend(std::string& out, const ReplayReport& report) {
  out += "<ul class=\"legend\">\n";
  for (const std::string& policy : report.policies()) {
    out += fmt::format(
        R"(<li><svg viewBox="0 0 28 10" aria-hidden="true"><g class="{}"><path d="M0 5H28"/></g></svg>{}</li>)",
        css_class(report, policy), html_text(policy));
    out += "\n";
  }
  out += "</ul>\n";
}

void add_row(std::string& out, const ReplayReport& report, const ReplayResult& result, bool first) {
  const auto gap = report.gap_closed(result, &ReplayResult::token_hit_ratio);
  const bool shown = gap && !is_bound(result) && result.policy != "lru";
  out += fmt::format(
      "<tr class=\"{}{}\"><td>{}</td><td>{}</td><td>{:.1f} %</td><td>{}</td><td>{:.1f} %</td>"
      "<td>{:.0f} s</td><td>{}</td><td>{}</td><td>{}</td>",
      is_bound(result) ? "bound" : "", first ? " first" : "", html_text(result.capacity),
      html_text(result.policy), 100 * result.token_hit_ratio,
      shown ? fmt::format("{:+.0f} %", 100 * *gap) : "", 100 * result.compute_saved_ratio,
      result.seconds_saved, readable(result.bytes_read), readable(result.bytes_written),
      result.evictions);
  if (report.media > 0) out += fmt::format("<td>{:.1f} %</td>", 100 * report.media_reused(result));
  out += "</tr>\n";
}

void add_table(std::string& out, const ReplayReport& report) {
  out +=
      "<div class=\"wide\"><table>\n<tr><th>capacity</th><th>policy</th><th>token hits</th>"
      "<th>gap to min closed</th><th>compute saved</th><th>time saved</th><th>KV read</th>"
      "<th>KV written</th><th>evictions</th>";
  if (report.media > 0) out += "<th>media reused</th>";
  out += "</tr>\n";
  std::string_view capacity;
  for (const ReplayResult& result : report.results) {
    add_row(out, report, result, result.capacity != capacity);
    capacity = result.capacity;
  }
  out += "</table></div>\n";
}

}  // namespace

std::string to_html(std::span<const ReplayReport> reports) {
  std::string out = page_head("Replay", kOwnStyle);
  out += kHeading;
  for (const ReplayReport& report : reports) {
    out += fmt::format("<h2>{}</h2>\n<p class=\"dim\">{}</p>\n<div class=\"plots\">\n",
                       html_text(report.name), html_text(report.description()));
    add_figure(out, report, "Tokens missed", "input tokens that had to be prefilled",
               &ReplayResult::token_hit_ratio);
    add_figure(out, report, "Compute missed",
               "weighted by compute: late tokens attend to more tokens than early ones",
               &ReplayResult::compute_saved_ratio);
    out += "</div>\n";
    add_legend(out, report);
    add_table(out, report);
  }
  return out + "</body>\n</html>\n";
}

}  // namespace afterimage
