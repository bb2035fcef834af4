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
  std::string note;  // shown where the pointer rests
};

struct ChartLine {
  std::string name;
  std::vector<ChartPoint> points;  // in the order in which they are joined
  bool bound = false;              // dashed: a limit and no measurement
};

/// How the values of an axis are written.
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

/// What goes into a page between its heading and its end: text is escaped by the calls that take
/// it.
class Page {
 public:
  Page(std::string_view title, std::string_view introduction);

  void add_heading(std::string_view text);
  void add_paragraph(std::string_view text);
  /// Charts stand side by side where there is room, the legend of the first below them.
  void add_charts(std::span<const Chart> charts);
  /// The first row is the head; the first column is text, the others are numbers.
  void add_table(std::span<const std::vector<std::string>> rows);

  /// One HTML page that needs no other file and runs no script. Light or dark as the reader's
  /// system is.
  [[nodiscard]] std::string html() const;

 private:
  std::string body_;
  std::string title_;
};

/// The beginning of a page up to its body, with the look that all our pages have; `own_style` is
/// added to it as it stands.
std::string page_head(std::string_view title, std::string_view own_style);

/// Text as HTML shows it.
std::string html_text(std::string_view text);

}  // namespace afterimage
