// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/pairs/pairs_curve.h"

#include <fmt/format.h>

#include <algorithm>

#include "caches/language/vetoes.h"
#include "caches/similarity/acceptance.h"
#include "caches/similarity/dot.h"
#include "lab/report/chart.h"

namespace afterimage {
namespace {

constexpr std::array kThresholds{0.99F, 0.98F, 0.97F, 0.95F, 0.93F, 0.9F,  0.85F,
                                 0.8F,  0.75F, 0.7F,  0.65F, 0.6F,  0.55F, 0.5F};
constexpr std::size_t kBatch = 100;  // pairs embedded per call

bool matched_by_text_rung(const QuestionPair& pair) {
  return std::ranges::any_of(kMatchLevels, [&](MatchLevel rung) {
    const auto a = fold_text(pair.a, rung);
    return a.has_value() && a == fold_text(pair.b, rung);
  });
}

/// The strictest condition that the pair meets.
MatchCondition strictest(const QuestionPair& pair) {
  if (!vetoes(pair.a, pair.b).empty()) return MatchCondition::kVectors;
  return word_change(pair.a, pair.b) == WordChange::kNone ? MatchCondition::kSameWords
                                                          : MatchCondition::kVetoes;
}

void count(PairsCurve& curve, const QuestionPair& pair, float similarity) {
  const auto judge = static_cast<std::size_t>(strictest(pair));
  for (std::size_t i = 0; i <= judge; ++i) {
    for (CurvePoint& point : curve.points[i]) {
      if (similarity < point.threshold) continue;
      ++point.matched;
      point.duplicates += pair.duplicate ? 1 : 0;
    }
  }
}

}  // namespace

std::string_view to_string(MatchCondition judge) {
  constexpr std::array<std::string_view, kMatchConditions> kNames{"vectors alone", "no veto",
                                                                  "same words"};
  return kNames[static_cast<std::size_t>(judge)];
}

Result<PairsCurve> trace_curve(std::span<const QuestionPair> pairs, Embedder& embedder) {
  PairsCurve curve{.embedder = embedder.name(), .pairs = pairs.size(), .points = {}};
  for (auto& points : curve.points) {
    for (const float threshold : kThresholds) points.push_back({.threshold = threshold});
  }
  std::vector<const QuestionPair*> unmatched;
  for (const QuestionPair& pair : pairs) {
    if (!matched_by_text_rung(pair)) unmatched.push_back(&pair);
  }
  for (std::size_t at = 0; at < unmatched.size(); at += kBatch) {
    const auto batch = std::span(unmatched).subspan(at, std::min(kBatch, unmatched.size() - at));
    std::vector<EmbedInput> texts;
    for (const QuestionPair* pair : batch) {
      texts.emplace_back(std::string_view(pair->a));
      texts.emplace_back(std::string_view(pair->b));
    }
    AFI_TRY(const std::vector<Vector> vectors, embedder.embed(texts));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Vector& a = vectors[2 * i];
      const Vector& b = vectors[2 * i + 1];
      count(curve, *batch[i], dot_product()(a.data(), b.data(), a.size()));
    }
  }
  return curve;
}

std::string to_table(const PairsCurve& curve) {
  std::string out = fmt::format(
      "\n{}, pairs that no rung above matches: precision and coverage by threshold\n\n{:<10}",
      curve.embedder, "");
  for (std::size_t judge = 0; judge < kMatchConditions; ++judge) {
    out += fmt::format("{:>24}", to_string(static_cast<MatchCondition>(judge)));
  }
  out += "\n";
  for (std::size_t i = 0; i < kThresholds.size(); ++i) {
    out += fmt::format("{:<10.2f}", kThresholds[i]);
    for (const auto& points : curve.points) {
      const CurvePoint& point = points[i];
      const double precision = proportion(point.duplicates, point.matched).value;
      const double coverage = proportion(point.matched, curve.pairs).value;
      out += point.matched == 0
                 ? fmt::format("{:>24}", "-")
                 : fmt::format("{:>12.1f} %{:>8.3f} %", 100 * precision, 100 * coverage);
    }
    out += "\n";
  }
  return out;
}

std::string to_html(std::span<const PairsCurve> curves, const PairsReport& report) {
  const RungVerdict safe = report.safe();
  const double precision = proportion(safe.duplicates, safe.matched).value;
  Page page("Precision and coverage of similarity matches",
            fmt::format("{} labelled pairs. The rungs without a model match {:.2f} % of them, and "
                        "{:.1f} % of these matches are labelled as duplicates. The other pairs:",
                        report.pairs, 100 * proportion(safe.matched, report.pairs).value,
                        100 * precision));
  std::vector<Chart> charts;
  for (const PairsCurve& curve : curves) {
    Chart chart{
        .title = curve.embedder,
        .caption = "Each point is a threshold; lower thresholds match more pairs, to the right.",
        .x = {.name = "coverage: share of pairs matched", .unit = ChartUnit::kPercent},
        .y = {.name = "precision", .unit = ChartUnit::kPercent},
        .lines = {}};
    for (std::size_t judge = 0; judge < kMatchConditions; ++judge) {
      ChartLine line{.name = std::string(to_string(static_cast<MatchCondition>(judge))),
                     .points = {}};
      for (const CurvePoint& point : curve.points[judge]) {
        if (point.matched < 10) continue;  // too few matches for a precision
        const double right = proportion(point.duplicates, point.matched).value;
        const double coverage = proportion(point.matched, curve.pairs).value;
        line.points.push_back({.x = coverage,
                               .y = right,
                               .note = fmt::format("threshold {:.2f}: {:.1f} % right, {} pairs",
                                                   point.threshold, 100 * right, point.matched)});
      }
      chart.lines.push_back(std::move(line));
    }
    charts.push_back(std::move(chart));
  }
  page.add_charts(charts);
  return page.html();
}

}  // namespace afterimage
