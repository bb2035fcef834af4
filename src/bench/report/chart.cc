// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace afterimage {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --paper: #fff; --ink: #1c1e21; --dim: #62676e; --line: #dfe2e6;
  --s0: #7a7f87; --s1: #0072b2; --s2: #d55e00; --s3: #009e73; --s4: #cc79a7; --s5: #b58900;
  --s6: #56b4e9; --s7: #8457b8; --s8: #a33b3b; --s9: #5c7d2f; }
@media (prefers-color-scheme: dark) { :root { --paper: #15171a; --ink: #e7e9ec; --dim: #9aa1aa;
  --line: #30343a; --s0: #9aa1aa; --s1: #4aa8e8; --s2: #ff8a3d; --s3: #2fd0a2; --s4: #e79cc6;
  --s5: #e0b83c; --s6: #8fd0f7; --s7: #b592e6; --s8: #e07a7a; --s9: #a3c46b; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .2rem;
  overflow-wrap: anywhere; } h3 { font-size: 1rem; margin: 0; }
p { margin: .3rem 0; } p.dim, figcaption { color: var(--dim); }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)); gap: 1.5rem;
  margin: 1.2rem 0 .4rem; } figure { margin: 0; } svg { width: 100%; height: auto; display: block; }
svg text { font-size: 12px; fill: var(--dim); } .grid { stroke: var(--line); }
.curve { fill: none; stroke-width: 2; stroke: var(--c); } .dot { fill: var(--c); stroke: none; }
.s0 { --c: var(--s0); } .s1 { --c: var(--s1); } .s2 { --c: var(--s2); } .s3 { --c: var(--s3); }
.s4 { --c: var(--s4); } .s5 { --c: var(--s5); } .s6 { --c: var(--s6); } .s7 { --c: var(--s7); }
.s8 { --c: var(--s8); } .s9 { --c: var(--s9); }
.bound { --c: var(--ink); stroke-dasharray: 6 4; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 1.5rem;
  margin: 1.2rem 0; } .figures img { max-width: 100%; min-width: 8rem; max-height: 14rem;
  border: 1px solid var(--line); margin: 0 .4rem .4rem 0; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: 0; list-style: none; }
.legend svg { display: inline-block; width: 28px; height: 10px; margin-right: .4rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums;
  width: 100%; } th, td { padding: .2rem .7rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); } th { color: var(--dim); font-weight: 500; }
th:first-child, td:first-child { text-align: left; }
)";

constexpr std::size_t kColours = 9;  // plus grey (s0) for the baseline

std::string css_class(const Chart& chart, std::size_t line) {
  return chart.lines[line].bound ? "curve bound" : fmt::format("curve s{}", 1 + line % kColours);
}

std::string axis_text(double value, ChartUnit unit) {
  switch (unit) {
    case ChartUnit::kPercent:
      return fmt::format("{:.3g} %", 100 * value);
    case ChartUnit::kMilliseconds:
      return fmt::format("{:.3g} ms", value);
    case ChartUnit::kNumber:
      return fmt::format("{:.3g}", value);
  }
  return {};
}

/// An axis from a round number below all values to one above, in round steps.
struct Scale {
  double low = std::numeric_limits<double>::max();
  double high = std::numeric_limits<double>::lowest();
  double step = 1;

  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void make_round() {
    if (low > high) low = high = 0;
    const double range = high > low ? high - low : std::max(std::abs(high), 1.0) / 2;
    step = std::pow(10.0, std::floor(std::log10(range)));
    if (range / step < 2) step /= 5;
    if (range / step < 5) step /= 2;
    low = std::floor(low / step) * step;
    high = std::max(std::ceil(high / step) * step, low + step);
  }
  [[nodiscard]] double part(double value) const { return (value - low) / (high - low); }
};

class Sheet {
 public:
  explicit Sheet(const Chart& chart) : chart_(chart) {
    for (const ChartLine& line : chart.lines) {
      for (const ChartPoint& point : line.points) {
        x_.take(point.x);
        y_.take(point.y);
      }
    }
    x_.make_round();
    y_.make_round();
  }

  [[nodiscard]] std::string draw() const {
    std::string out = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img">)", kWidth, kHeight);
    draw_grid(out);
    for (std::size_t i = 0; i < chart_.lines.size(); ++i) draw_line(out, i);
    return out + "</svg>\n";
  }

 private:
  static constexpr double kWidth = 560, kHeight = 346;
  static constexpr double kLeft = 56, kRight = 18, kTop = 12, kBottom = 50;

  [[nodiscard]] double across(double x) const {
    return kLeft + x_.part(x) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double down(double y) const {
    return kTop + (1 - y_.part(y)) * (kHeight - kTop - kBottom);
  }

  void draw_grid(std::string& out) const {
    for (double y = y_.low; y < y_.high + y_.step / 2; y += y_.step) {
      out += fmt::format(
          R"(<path class="grid" d="M{} {:.1f}H{}"/><text x="{}" y="{:.1f}" text-anchor="end">{}</text>)",
          kLeft, down(y), kWidth - kRight, kLeft - 6, down(y) + 4, axis_text(y, chart_.y.unit));
    }
    const double labels = std::max(1.0, std::round((x_.high - x_.low) / x_.step / 6));
    for (double x = x_.low; x < x_.high + x_.step / 2; x += labels * x_.step) {
      out += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", across(x),
                         kHeight - 32, axis_text(x, chart_.x.unit));
    }
    out += fmt::format(R"(<text x="{}" y="{}" text-anchor="middle">{}</text>)",
                       (kLeft + kWidth - kRight) / 2, kHeight - 10, html_text(chart_.x.name));
  }

  void draw_line(std::string& out, std::size_t index) const {
    const ChartLine& line = chart_.lines[index];
    std::string path;
    std::string dots;
    for (const ChartPoint& point : line.points) {
      const double x = across(point.x);
      const double y = down(point.y);
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
      if (line.bound) continue;
      dots += fmt::format(
          R"(<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="3.2"><title>{}</title></circle>)", x, y,
          html_text(line.name + ": " + point.note));
    }
    if (path.empty()) return;
    out +=
        fmt::format("<g class=\"{}\"><path d=\"{}\"/>{}</g>", css_class(chart_, index), path, dots);
  }

  const Chart& chart_;
  Scale x_;
  Scale y_;
};

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\n':
        out += "<br>";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string page_head(std::string_view title, std::string_view own_style) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n",
      html_text(title), kStyle, own_style);
}

Page::Page(std::string_view title, std::string_view introduction) : title_(title) {
  body_ = fmt::format("<h1>{}</h1>\n<p class=\"dim\">{}</p>\n", html_text(title),
                      html_text(introduction));
}

void Page::add_heading(std::string_view text) {
  body_ += fmt::format("<h2>{}</h2>\n", html_text(text));
}

void Page::add_paragraph(std::string_view text) {
  body_ += fmt::format("<p class=\"dim\">{}</p>\n", html_text(text));
}

void Page::add_charts(std::span<const Chart> charts) {
  body_ += "<div class=\"plots\">\n";
  for (const Chart& chart : charts) {
    body_ += fmt::format("<figure>\n<h3>{}</h3>\n{}<figcaption>{}</figcaption>\n</figure>\n",
                         html_text(chart.title), Sheet(chart).draw(), html_text(chart.caption));
  }
  body_ += "</div>\n";
  if (charts.empty()) return;
  body_ += "<ul class=\"legend\">\n";
  for (std::size_t i = 0; i < charts.front().lines.size(); ++i) {
    body_ += fmt::format(
        R"(<li><svg viewBox="0 0 28 10" aria-hidden="true"><g class="{}"><path d="M0 5H28"/></g></svg>{}</li>)",
        css_class(charts.front(), i), html_text(charts.front().lines[i].name));
    body_ += "\n";
  }
  body_ += "</ul>\n";
}

void Page::add_table(std::span<const std::vector<std::string>> rows) {
  body_ += "<div class=\"wide\"><table>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string_view cell = i == 0 ? "th" : "td";
    body_ += "<tr>";
    for (const std::string& text : rows[i]) {
      body_ += fmt::format("<{}>{}</{}>", cell, html_text(text), cell);
    }
    body_ += "</tr>\n";
  }
  body_ += "</table></div>\n";
}

void Page::add_figures(std::span<const Figure> figures) {
  body_ += "<div class=\"figures\">\n";
  for (const Figure& figure : figures) {
    body_ += "<figure>\n";
    for (const std::string& image : figure.images) {
      body_ += fmt::format("<img alt=\"\" src=\"{}\">\n", html_text(image));
    }
    for (const std::string& line : figure.lines) {
      body_ += fmt::format("<div>{}</div>\n", html_text(line));
    }
    body_ += "</figure>\n";
  }
  body_ += "</div>\n";
}

std::string Page::html() const { return page_head(title_, {}) + body_ + "</body>\n</html>\n"; }

}  // namespace afterimage
