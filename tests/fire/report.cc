// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "fire/matrix.h"

namespace afterimage::fire {
namespace {

double milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

std::string time_text(Duration duration) {
  const double ms = milliseconds(duration);
  if (ms < 1) return fmt::format("{:.0f} us", ms * 1'000);
  if (ms < 1'000) return fmt::format("{:.1f} ms", ms);
  return fmt::format("{:.1f} s", ms / 1'000);
}

std::string recovery_text(const Tally& tally) {
  if (tally.recoveries.empty()) return "-";
  return fmt::format("{} / {} / {}", time_text(percentile(tally.recoveries, 0.5)),
                     time_text(percentile(tally.recoveries, 0.99)),
                     time_text(percentile(tally.recoveries, 1.0)));
}

std::string bound_text(const Tally& tally) {
  if (!tally.fine() || tally.injected == 0) return "-";
  return fmt::format("{:.2g}", upper_bound_95(tally.injected));
}

using Line = std::vector<std::string>;

std::vector<Line> lines_of(const Matrix& matrix) {
  std::vector<Line> lines{{"fault", "injected", "noticed", "answers", "wrong", "lost",
                           "recovery p50 / p99 / max", "<= at 95 %", "took", ""}};
  for (const RowResult& result : matrix.rows) {
    const Tally& t = result.tally;
    lines.push_back({result.row->kind, fmt::format("{}", t.injected), fmt::format("{}", t.detected),
                     fmt::format("{}", t.answers), fmt::format("{}", t.wrong),
                     fmt::format("{}", t.lost), recovery_text(t), bound_text(t),
                     time_text(result.took), t.fine() ? "" : "MISSED"});
  }
  return lines;
}

}  // namespace

double upper_bound_95(std::uint64_t n) {
  return n == 0 ? 1.0 : -std::expm1(std::log(0.05) / static_cast<double>(n));
}

Duration percentile(std::vector<Duration> of, double p) {
  if (of.empty()) return Duration(0);
  std::ranges::sort(of);
  const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(of.size())));
  return of[std::clamp<std::size_t>(rank, 1, of.size()) - 1];
}

bool Matrix::fine() const {
  return std::ranges::all_of(rows, [](const RowResult& row) { return row.tally.fine(); }) &&
         std::ranges::none_of(guards, [](const GuardResult& g) { return g.caught_by.empty(); });
}

std::string as_table(const Matrix& matrix) {
  std::string text;
  if (!matrix.rows.empty()) {
    const std::vector<Line> lines = lines_of(matrix);
    std::vector<std::size_t> widths(lines.front().size());
    for (const Line& line : lines) {
      for (std::size_t i = 0; i < line.size(); ++i) {
        widths[i] = std::max(widths[i], line[i].size());
      }
    }
    for (const Line& line : lines) {
      std::string row = fmt::format("{:<{}}", line[0], widths[0]);
      for (std::size_t i = 1; i < line.size(); ++i) {
        row += fmt::format("  {:>{}}", line[i], widths[i]);
      }
      row.erase(row.find_last_not_of(' ') + 1);
      text += row + "\n";
    }
  }
  for (const RowResult& result : matrix.rows) {
    for (const std::string& note : result.tally.notes) {
      text += fmt::format("{}: {}\n", result.row->kind, note);
    }
  }
  for (const RowResult& result : matrix.rows) {
    for (const std::string& bar : result.tally.missed) {
      text += fmt::format("MISSED {}: {}\n", result.row->kind, bar);
    }
  }
  if (!matrix.guards.empty()) {
    std::size_t caught = 0;
    for (const GuardResult& guard : matrix.guards) {
      caught += guard.caught_by.empty() ? 0 : 1;
      text += guard.caught_by.empty()
                  ? fmt::format("  {:<26} NOT NOTICED {}\n", guard.guard, guard.how)
                  : fmt::format("  {:<26} {:<12} {}\n", guard.guard, guard.caught_by, guard.how);
    }
    text += fmt::format("{} of {} disabled guards were noticed\n", caught, matrix.guards.size());
  }
  text += fmt::format("seed {}, {}, {}: {}\n", matrix.seed, matrix.brief ? "in brief" : "in full",
                      time_text(matrix.took), matrix.fine() ? "every row passed" : "A ROW FAILED");
  return text;
}

std::string as_json(const Matrix& matrix) {
  nlohmann::ordered_json json{{"seed", matrix.seed},
                              {"brief", matrix.brief},
                              {"seconds", milliseconds(matrix.took) / 1'000},
                              {"fine", matrix.fine()}};
  for (const RowResult& result : matrix.rows) {
    const Tally& t = result.tally;
    nlohmann::ordered_json row{{"kind", result.row->kind},
                               {"injected", t.injected},
                               {"noticed", t.detected},
                               {"answers", t.answers},
                               {"wrong", t.wrong},
                               {"lost", t.lost},
                               {"seconds", milliseconds(result.took) / 1'000}};
    if (!t.recoveries.empty()) {
      row["recovery_ms"] = {{"p50", milliseconds(percentile(t.recoveries, 0.5))},
                            {"p99", milliseconds(percentile(t.recoveries, 0.99))},
                            {"max", milliseconds(percentile(t.recoveries, 1.0))}};
    }
    if (t.fine() && t.injected > 0) row["upper_bound_95"] = upper_bound_95(t.injected);
    row["missed"] = t.missed;
    row["notes"] = t.notes;
    json["rows"].push_back(std::move(row));
  }
  for (const GuardResult& guard : matrix.guards) {
    json["guards"].push_back(
        {{"guard", guard.guard}, {"caught_by", guard.caught_by}, {"how", guard.how}});
  }
  return json.dump(2) + "\n";
}

std::string as_markdown(const Matrix& matrix) {
  std::string text = fmt::format("Seed {}, {}, {} in all, {}.\n\n", matrix.seed,
                                 matrix.brief ? "in brief" : "in full", time_text(matrix.took),
                                 matrix.fine() ? "every row passed" : "**a row failed**");
  const std::vector<Line> lines = lines_of(matrix);
  for (std::size_t n = 0; n < lines.size(); ++n) {
    text += "|";
    for (std::size_t i = 0; i + 1 < lines[n].size(); ++i) text += " " + lines[n][i] + " |";
    text += "\n";
    if (n > 0) continue;
    text += "|---|";
    for (std::size_t i = 1; i + 1 < lines[n].size(); ++i) text += "---:|";
    text += "\n";
  }
  text += "\n";
  for (const RowResult& result : matrix.rows) {
    text += fmt::format("- **{}**: {}", result.row->kind, result.row->what);
    for (const std::string& note : result.tally.notes) text += "; " + note;
    text += ".\n";
    for (const std::string& bar : result.tally.missed) text += "  - **missed**: " + bar + "\n";
  }
  if (!matrix.guards.empty()) {
    text += "\nEach guard disabled:\n\n| guard | noticed by | how |\n|---|---|---|\n";
    for (const GuardResult& guard : matrix.guards) {
      text += fmt::format("| `{}` | {} | {} |\n", guard.guard,
                          guard.caught_by.empty() ? "**none**" : guard.caught_by, guard.how);
    }
  }
  return text;
}

bool write_markdown(const Matrix& matrix, const std::string& path) {
  constexpr std::string_view kBegin = "<!-- faults: make fire REPORT=docs/faults.md -->\n";
  constexpr std::string_view kEnd = "<!-- end of faults -->\n";
  std::string text;
  {
    std::ifstream before(path);
    text.assign(std::istreambuf_iterator<char>(before), {});
  }
  const std::size_t begin = text.find(kBegin);
  const std::size_t end = text.find(kEnd);
  const std::string part = std::string(kBegin) + as_markdown(matrix) + std::string(kEnd);
  if (begin != std::string::npos && end != std::string::npos && begin < end) {
    text.replace(begin, end + kEnd.size() - begin, part);
  } else {
    text = part;
  }
  std::ofstream file(path);
  file << text;
  return file.good();
}

}  // namespace afterimage::fire
