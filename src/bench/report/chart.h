// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace afterimage {

struct ChartPoint {
  double x = 0;
  double y = 0;
  std::string note;  // tooltip
};

struct ChartLine {
  std::string name;
  std::vector<ChartPoint> points;  // in drawing order
  bool bound = false;              // dashed: a bound, not a measurement
};

/// How values on an axis are formatted.
enum class ChartUnit : unsigned char { kNumber, kPercent, kMilliseconds };

struct ChartAxis {
  std::string name;
  ChartUnit unit = ChartUnit::kNumber;
};

struct Chart {
  std::string title;
  std::string caption;
  ChartAxis x;
  ChartAxis y;
  std::vector<ChartLine> lines;
};

/// Pictures with text below them.
struct Figure {
  std::vector<std::string> images;  // data URLs
  std::vector<std::string> lines;
};

/// The body of an HTML page. Calls that take text escape it.
class Page {
 public:
  Page(std::string_view title, std::string_view introduction);

  void add_heading(std::string_view text);
  void add_paragraph(std::string_view text);
  /// Charts are placed side by side where they fit, with the legend of the first below them.
  void add_charts(std::span<const Chart> charts);
  /// The first row is the header; the first column is text, the others are numbers.
  void add_table(std::span<const std::vector<std::string>> rows);

  /// Figures are placed side by side where they fit.
  void add_figures(std::span<const Figure> figures);

  /// A self-contained HTML page without scripts. Follows the reader's light or dark theme.
  [[nodiscard]] std::string html() const;

 private:
  std::string body_;
  std::string title_;
};

/// The start of a page up to its body, with the style of all our pages; `own_style` is appended to
/// it verbatim.
std::string page_head(std::string_view title, std::string_view own_style);

/// Escapes text for HTML.
std::string html_text(std::string_view text);

}  // namespace afterimage
