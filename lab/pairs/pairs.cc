// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/pairs/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "caches/language/canonical_text.h"

namespace afterimage {
namespace {

constexpr Bytes kMaxPairs = 1_GiB;

/// The strictest match level at which the two questions match.
std::optional<MatchLevel> level_of(const QuestionPair& pair) {
  for (const MatchLevel level : kMatchLevels) {
    const auto a = fold_text(pair.a, level);
    if (a.has_value() && a == fold_text(pair.b, level)) return level;
  }
  return std::nullopt;
}

Result<std::string> question_field(const nlohmann::json& object, const char* name) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_string()) {
    return malformed(fmt::format("the line has no text field \"{}\"", name));
  }
  return it->get<std::string>();
}

}  // namespace

Result<QuestionPair> parse_pair_line(std::string_view line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return malformed("the line is not a JSON object");
  QuestionPair pair;
  AFI_TRY(pair.a, question_field(json, "a"));
  AFI_TRY(pair.b, question_field(json, "b"));
  const auto duplicate = json.find("duplicate");
  if (duplicate == json.end() || !duplicate->is_boolean()) {
    return malformed("\"duplicate\" is missing or not true or false");
  }
  pair.duplicate = duplicate->get<bool>();
  return pair;
}

Result<QuestionPairs> read_pairs(const std::string& path, const Files& files) {
  AFI_TRY(const std::vector<std::byte> content, files.read(path, kMaxPairs));
  QuestionPairs read;
  const auto take = [&](std::size_t number, std::string_view line) {
    auto pair = parse_pair_line(line);
    if (pair.has_value()) {
      read.pairs.push_back(*std::move(pair));
    } else {
      read.rejected.push_back({.number = number, .error = std::move(pair).error()});
    }
  };
  for_each_line({reinterpret_cast<const char*>(content.data()), content.size()}, take);
  return read;
}

LevelVerdict& LevelVerdict::operator+=(const LevelVerdict& other) {
  matched += other.matched;
  duplicates += other.duplicates;
  wrong.insert(wrong.end(), other.wrong.begin(), other.wrong.end());
  return *this;
}

Proportion proportion(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return {};
  constexpr double kZ = 1.959964;  // 97.5 % quantile of the normal distribution
  const auto n = static_cast<double>(whole);
  const double p = static_cast<double>(part) / n;
  const double middle = p + kZ * kZ / (2 * n);
  const double reach = kZ * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n));
  const double scale = 1 + kZ * kZ / n;
  return {.value = p,
          .low = std::max(0.0, (middle - reach) / scale),
          .high = std::min(1.0, (middle + reach) / scale)};
}

LevelVerdict PairsReport::safe() const {
  LevelVerdict all;
  for (const LevelVerdict& level : levels) all += level;
  return all;
}

PairsReport judge_pairs(std::span<const QuestionPair> pairs) {
  PairsReport report{.pairs = pairs.size(), .levels = {}};
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    report.duplicates += pairs[i].duplicate ? 1 : 0;
    const auto level = level_of(pairs[i]);
    if (!level.has_value()) continue;
    LevelVerdict& verdict = report.levels[static_cast<std::size_t>(*level)];
    ++verdict.matched;
    if (pairs[i].duplicate) {
      ++verdict.duplicates;
    } else {
      verdict.wrong.push_back(i);
    }
  }
  return report;
}

std::string to_table(const PairsReport& report, const QuestionPairs& pairs, std::size_t shown) {
  std::string out =
      fmt::format("{} pairs, {} of them labelled as duplicates", report.pairs, report.duplicates);
  if (!pairs.rejected.empty()) {
    const RejectedLine& first = pairs.rejected.front();
    out += fmt::format("; {} invalid lines, the first is line {}: {}", pairs.rejected.size(),
                       first.number, first.error.message);
  }
  out += fmt::format("\n\n{:<18}{:>9}{:>12}{:>12}   {:<20}{:>9}\n", "", "matched", "duplicates",
                     "precision", "interval (95 %)", "coverage");
  const auto row = [&](std::string_view name, const LevelVerdict& verdict) {
    const Proportion right = proportion(verdict.duplicates, verdict.matched);
    const double coverage = proportion(verdict.matched, report.pairs).value;
    out += fmt::format("{:<18}{:>9}{:>12}", name, verdict.matched, verdict.duplicates);
    out += verdict.matched == 0
               ? fmt::format("{:>12}   {:<20}", "-", "")
               : fmt::format("{:>10.1f} %   {:<20}", 100 * right.value,
                             fmt::format("{:.1f} to {:.1f} %", 100 * right.low, 100 * right.high));
    out += fmt::format("{:>7.3f} %\n", 100 * coverage);
  };
  for (const MatchLevel level : kMatchLevels) {
    row(to_string(level), report.levels[static_cast<std::size_t>(level)]);
  }
  const LevelVerdict safe = report.safe();
  row("together", safe);
  for (std::size_t i = 0; i < std::min(shown, safe.wrong.size()); ++i) {
    const QuestionPair& pair = pairs.pairs[safe.wrong[i]];
    out +=
        fmt::format("{}  {}\n  {}\n",
                    i == 0 ? "\nMatched, but not labelled as duplicates:\n" : "\n", pair.a, pair.b);
  }
  return out;
}

OrderedJson counts_json(std::uint64_t matched, std::uint64_t duplicates, std::uint64_t pairs) {
  const Proportion right = proportion(duplicates, matched);
  return {{"matched", matched},
          {"duplicates", duplicates},
          {"precision", matched == 0 ? OrderedJson(nullptr) : OrderedJson(right.value)},
          {"precision_95", {right.low, right.high}},
          {"coverage", proportion(matched, pairs).value}};
}

OrderedJson report_json(const PairsReport& report, const QuestionPairs& pairs) {
  const auto value = [&](const LevelVerdict& verdict) {
    return counts_json(verdict.matched, verdict.duplicates, report.pairs);
  };
  OrderedJson levels = OrderedJson::array();
  for (const MatchLevel level : kMatchLevels) {
    OrderedJson named{{"match_level", to_string(level)}};
    named.update(value(report.levels[static_cast<std::size_t>(level)]));
    levels.push_back(std::move(named));
  }
  OrderedJson rejected = OrderedJson::array();
  for (const RejectedLine& line : pairs.rejected) {
    rejected.push_back({{"line", line.number}, {"error", line.error.message}});
  }
  return {{"pairs", report.pairs},
          {"duplicates", report.duplicates},
          {"rejected", std::move(rejected)},
          {"match_levels", std::move(levels)},
          {"safe", value(report.safe())}};
}

}  // namespace afterimage
