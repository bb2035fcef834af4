// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/pairs/pairs_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "bench/report/chart.h"
#include "caches/language/canonical_text.h"
#include "caches/language/vetoes.h"
#include "caches/similarity/acceptance.h"
#include "caches/similarity/dot.h"

namespace afterimage {
namespace {

constexpr std::array kThresholds{0.99F, 0.98F, 0.97F, 0.95F, 0.93F, 0.9F,  0.85F,
                                 0.8F,  0.75F, 0.7F,  0.65F, 0.6F,  0.55F, 0.5F};
constexpr std::array kErrorBudgets{0.01, 0.02, 0.05, 0.1, 0.2};
constexpr std::array kCoverages{0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.2, 0.4};
constexpr float kTextMatch = std::numeric_limits<float>::infinity();
constexpr float kVetoed = -kTextMatch;
constexpr std::size_t kBatch = 100;  // pairs embedded per call

bool matched_by_text_level(const QuestionPair& pair) {
  return std::ranges::any_of(kMatchLevels, [&](MatchLevel level) {
    const auto a = fold_text(pair.a, level);
    return a.has_value() && a == fold_text(pair.b, level);
  });
}

/// The strictest condition that the pair meets.
MatchCondition strictest(const QuestionPair& pair) {
  if (!vetoes(pair.a, pair.b).empty()) return MatchCondition::kVectors;
  return word_change(pair.a, pair.b) == WordChange::kNone ? MatchCondition::kSameWords
                                                          : MatchCondition::kNoVeto;
}

/// A pair that could be served: no veto objects.
struct Match {
  SimilarityKind kind;
  bool duplicate = false;
};

/// As SimilarityLevel decides, with the evidence of all scopes.
LearnedPoint learn(std::span<const Match> matches, double error_budget) {
  constexpr std::size_t kExplored = 100;
  LearnedPoint point{.error_budget = error_budget};
  EvidenceTable evidence;
  std::size_t acceptable = 0;
  for (const Match& match : matches) {
    const Judgement judgement = judge({.error_budget = error_budget}, match.kind, {}, {}, evidence);
    const bool serve = judgement.serve && ++acceptable % kExplored != 0;
    if (serve) {
      ++point.matched;
      point.duplicates += match.duplicate ? 1 : 0;
    } else {
      evidence.add(match.kind, match.duplicate);
    }
  }
  return point;
}

/// A pair and how similar it counts as.
struct Scored {
  float similarity = 0.0F;
  bool duplicate = false;
};

/// The `share` of all pairs that are most similar, without those that are vetoed. Of equally similar
/// ones all or none count, so that their order decides nothing.
CurvePoint most_similar(std::span<const Scored> sorted, double share) {
  auto wanted = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  while (wanted > 0 && sorted[wanted - 1].similarity == kVetoed) --wanted;
  while (wanted > 0 && wanted < sorted.size() &&
         sorted[wanted].similarity == sorted[wanted - 1].similarity) {
    ++wanted;
  }
  CurvePoint point{.threshold = wanted == 0 ? kTextMatch : sorted[wanted - 1].similarity,
                   .matched = wanted};
  for (const Scored& one : sorted.first(wanted)) point.duplicates += one.duplicate ? 1 : 0;
  return point;
}

CurvePoint at_least(std::span<const Scored> all, float threshold) {
  CurvePoint point{.threshold = threshold};
  for (const Scored& one : all) {
    if (one.similarity < threshold) continue;
    ++point.matched;
    point.duplicates += one.duplicate ? 1 : 0;
  }
  return point;
}

/// All pairs, by three ways of scoring them.
struct Ways {
  std::vector<Scored> levels;
  std::vector<Scored> verified;  // empty: there is no verifier
  std::vector<Scored> vectors;
};

void compare(PairsCurve& curve, Ways& ways) {
  for (std::vector<Scored>* const all : {&ways.levels, &ways.verified, &ways.vectors}) {
    std::ranges::sort(*all, std::ranges::greater(), &Scored::similarity);
  }
  for (const double share : kCoverages) {
    CoveragePoint point{.coverage = share,
                        .levels = most_similar(ways.levels, share),
                        .verified = {},
                        .gptcache = most_similar(ways.vectors, share)};
    if (!ways.verified.empty()) point.verified = most_similar(ways.verified, share);
    curve.together.push_back(point);
  }
  curve.gptcache = at_least(ways.vectors, kGptCacheThreshold);
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

Result<std::vector<float>> similarities_of(std::span<const QuestionPair> pairs,
                                           Embedder& embedder) {
  std::vector<EmbedInput> texts;
  for (const QuestionPair& pair : pairs) {
    texts.emplace_back(std::string_view(pair.a));
    texts.emplace_back(std::string_view(pair.b));
  }
  AFI_TRY(const std::vector<Vector> vectors, embedder.embed(texts));
  std::vector<float> similarities;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Vector& a = vectors[2 * i];
    const Vector& b = vectors[2 * i + 1];
    similarities.push_back(dot_product()(a.data(), b.data(), a.size()));
  }
  return similarities;
}

/// The first question as the stored one, the second as the new one.
Result<float> score_of(const QuestionPair& pair, Verifier& verifier) {
  const std::string_view stored = pair.a;
  AFI_TRY(const std::vector<float> scores, verifier.score(pair.b, std::span(&stored, 1)));
  if (scores.size() == 1) return scores.front();
  return fail(ErrorCode::kCorruption, verifier.name() + " does not give one score to a pair");
}

}  // namespace

std::string_view to_string(MatchCondition judge) {
  constexpr std::array<std::string_view, kMatchConditions> kNames{"vectors alone", "no veto",
                                                                  "same words"};
  return kNames[static_cast<std::size_t>(judge)];
}

Result<PairsCurve> trace_curve(std::span<const QuestionPair> pairs, Embedder& embedder,
                               const VerifiedBy& by) {
  PairsCurve curve{.embedder = embedder.name(),
                   .pairs = pairs.size(),
                   .points = {},
                   .learned = {},
                   .together = {},
                   .gptcache = {},
                   .verified = {},
                   .verified_learned = {}};
  std::vector<Match> matches;
  std::vector<Match> accepted;
  Ways ways;
  for (auto& points : curve.points) {
    for (const float threshold : kThresholds) points.push_back({.threshold = threshold});
  }
  for (std::size_t at = 0; at < pairs.size(); at += kBatch) {
    const auto batch = pairs.subspan(at, std::min(kBatch, pairs.size() - at));
    AFI_TRY(const std::vector<float> similarities, similarities_of(batch, embedder));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const float similarity = similarities[i];
      const QuestionPair& pair = batch[i];
      const auto add = [&](std::vector<Scored>& to, float score) {
        to.push_back({.similarity = score, .duplicate = pair.duplicate});
      };
      add(ways.vectors, similarity);
      if (matched_by_text_level(pair)) {
        add(ways.levels, kTextMatch);
        if (by.verifier != nullptr) add(ways.verified, kTextMatch);
        continue;
      }
      count(curve, pair, similarity);
      const bool vetoed = strictest(pair) == MatchCondition::kVectors;
      add(ways.levels, vetoed ? kVetoed : similarity);
      const Match match{.kind = {.change = word_change(pair.a, pair.b), .similarity = similarity},
                        .duplicate = pair.duplicate};
      if (!vetoed) matches.push_back(match);
      if (by.verifier == nullptr) continue;
      float score = kVetoed;
      if ((!vetoed || by.overrules_vetoes) && similarity >= kLeastVerified) {
        AFI_TRY(score, score_of(pair, *by.verifier));
        if (by.threshold.has_value() && score >= *by.threshold) accepted.push_back(match);
      }
      add(ways.verified, score);
    }
  }
  compare(curve, ways);
  for (const double budget : kErrorBudgets) curve.learned.push_back(learn(matches, budget));
  if (by.verifier == nullptr || !by.threshold.has_value()) return curve;
  curve.verified = at_least(ways.verified, *by.threshold);
  for (const double budget : kErrorBudgets) {
    curve.verified_learned.push_back(learn(accepted, budget));
  }
  return curve;
}

namespace {

std::string precision_text(const CurvePoint& point) {
  if (point.matched == 0) return fmt::format("{:>28}", "-");
  const Proportion right = proportion(point.duplicates, point.matched);
  return fmt::format("{:>28}", fmt::format("{:.1f} % ({:.1f} to {:.1f} %)", 100 * right.value,
                                           100 * right.low, 100 * right.high));
}

/// "-": all that may match are less than this share.
std::string share_text(const PairsCurve& curve, double share, const CurvePoint& point) {
  const double reached = proportion(point.matched, curve.pairs).value;
  if (reached < share - 1.0 / static_cast<double>(curve.pairs)) {
    return fmt::format("{:>28}{:>9}", "-", "-");
  }
  const std::string threshold =
      point.threshold == kTextMatch ? "text" : fmt::format("{:.3f}", point.threshold);
  return fmt::format("{}{:>9}", precision_text(point), threshold);
}

std::string together_text(const PairsCurve& curve) {
  const bool verified = curve.together.front().verified.has_value();
  std::string out = fmt::format(
      "\nall match levels together, the most similar pairs first, {}beside GPTCache's way (vectors "
      "alone)\n\n"
      "{:<10}{:>28}{:>9}{}{:>28}{:>9}\n",
      verified ? "and those of which the verifier is surest, " : "", "coverage", "precision (95 %)",
      "cosine", verified ? fmt::format("{:>28}{:>9}", "verified (95 %)", "score") : "",
      "GPTCache's way (95 %)", "cosine");
  for (const CoveragePoint& point : curve.together) {
    out += fmt::format("{:<10}{}{}{}\n", fmt::format("{:.0f} %", 100 * point.coverage),
                       share_text(curve, point.coverage, point.levels),
                       verified ? share_text(curve, point.coverage, *point.verified) : "",
                       share_text(curve, point.coverage, point.gptcache));
  }
  out += fmt::format(
      "\nGPTCache with its own threshold matches {:.1f} %, and {} of those are right\n",
      100 * proportion(curve.gptcache.matched, curve.pairs).value,
      fmt::format("{:.1f} %",
                  100 * proportion(curve.gptcache.duplicates, curve.gptcache.matched).value));
  return out;
}

std::string learned_text(std::span<const LearnedPoint> learned, std::uint64_t pairs) {
  std::string out;
  for (const LearnedPoint& point : learned) {
    const Proportion right = proportion(point.duplicates, point.matched);
    out += fmt::format("{:<10.2f}", point.error_budget);
    out += point.matched == 0
               ? fmt::format("{:>24}\n", "-")
               : fmt::format("{:>12.1f} %{:>8.3f} %   ({:.1f} to {:.1f} %)\n", 100 * right.value,
                             100 * proportion(point.matched, pairs).value, 100 * right.low,
                             100 * right.high);
  }
  return out;
}

std::string verified_text(const PairsCurve& curve) {
  if (!curve.verified.has_value()) return "";
  const Proportion right = proportion(curve.verified->duplicates, curve.verified->matched);
  const Proportion covered = proportion(curve.verified->matched, curve.pairs);
  return fmt::format(
             "\nverified, score at least {:.3f}: {} pairs, {:.2f} % ({:.2f} to {:.2f} %) of all; "
             "{:.1f} % ({:.1f} to {:.1f} %) of them are right\n"
             "\nserved of verified pairs as the similarity match level learns, by error budget\n\n",
             curve.verified->threshold, curve.verified->matched, 100 * covered.value,
             100 * covered.low, 100 * covered.high, 100 * right.value, 100 * right.low,
             100 * right.high) +
         learned_text(curve.verified_learned, curve.pairs);
}

OrderedJson point_json(const CurvePoint& point, std::uint64_t pairs) {
  OrderedJson one{
      {"threshold", point.threshold == kTextMatch ? OrderedJson() : OrderedJson(point.threshold)}};
  one.update(counts_json(point.matched, point.duplicates, pairs));
  return one;
}

OrderedJson learned_json(std::span<const LearnedPoint> points, std::uint64_t pairs) {
  OrderedJson learned = OrderedJson::array();
  for (const LearnedPoint& point : points) {
    OrderedJson one{{"error_budget", point.error_budget}};
    one.update(counts_json(point.matched, point.duplicates, pairs));
    learned.push_back(std::move(one));
  }
  return learned;
}

}  // namespace

std::string to_table(const PairsCurve& curve) {
  std::string out = fmt::format(
      "\n{}, pairs that no match level above matches: precision and coverage by "
      "threshold\n\n{:<10}",
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
  out += "\nserved as the similarity match level learns, by error budget\n\n";
  out += learned_text(curve.learned, curve.pairs);
  return out + together_text(curve) + verified_text(curve);
}

std::string to_json(const PairsReport& report, const QuestionPairs& pairs,
                    std::span<const PairsCurve> curves) {
  OrderedJson all = report_json(report, pairs);
  if (!curves.empty()) all["curves"] = OrderedJson::array();
  for (const PairsCurve& curve : curves) {
    OrderedJson points = OrderedJson::array();
    for (std::size_t judge = 0; judge < kMatchConditions; ++judge) {
      for (const CurvePoint& point : curve.points[judge]) {
        OrderedJson one{{"condition", to_string(static_cast<MatchCondition>(judge))},
                        {"threshold", point.threshold}};
        one.update(counts_json(point.matched, point.duplicates, curve.pairs));
        points.push_back(std::move(one));
      }
    }
    OrderedJson together = OrderedJson::array();
    OrderedJson verified = OrderedJson::array();
    OrderedJson gptcache = OrderedJson::array();
    for (const CoveragePoint& point : curve.together) {
      together.push_back(point_json(point.levels, curve.pairs));
      gptcache.push_back(point_json(point.gptcache, curve.pairs));
      if (point.verified) verified.push_back(point_json(*point.verified, curve.pairs));
    }
    OrderedJson one{{"embedder", curve.embedder},
                    {"pairs", curve.pairs},
                    {"points", std::move(points)},
                    {"learned", learned_json(curve.learned, curve.pairs)},
                    {"all_levels", std::move(together)},
                    {"gptcache", std::move(gptcache)},
                    {"gptcache_default", point_json(curve.gptcache, curve.pairs)}};
    if (!verified.empty()) one["verified"] = std::move(verified);
    if (curve.verified.has_value()) {
      one["verified_at"] = point_json(*curve.verified, curve.pairs);
      one["verified_learned"] = learned_json(curve.verified_learned, curve.pairs);
    }
    all["curves"].push_back(std::move(one));
  }
  return all.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string to_html(std::span<const PairsCurve> curves, const PairsReport& report) {
  const LevelVerdict safe = report.safe();
  const double precision = proportion(safe.duplicates, safe.matched).value;
  Page page("Precision and coverage of similarity matches",
            fmt::format(
                "{} labelled pairs. The match levels without a model match {:.2f} % of them, and "
                "{:.1f} % of these matches are labelled as duplicates. The other pairs:",
                report.pairs, 100 * proportion(safe.matched, report.pairs).value, 100 * precision));
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
