// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/reuse_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "afterimage/check.h"

namespace afterimage {
namespace {

constexpr double kFirstEdge = 2;  // seconds
constexpr double kBinsPerOctave = 4;
constexpr double kReusesByOctave = 0.1;  // prior hazard × age
// Weight of the prior: one reuse, or this many seconds without reuse.
constexpr double kPriorReuses = 1;
constexpr double kLongestPrior = 300;
constexpr double kFading = 0.999;  // per fade()
constexpr unsigned kLevelBits = 3;

// A time span from one age on: expected reuses, expected seconds of residence, and the share that
// is left unused at its end.
struct Span {
  double reuses;
  double seconds;
  double left;
};

Span join(const Span& first, const Span& then) {
  return {first.reuses + first.left * then.reuses, first.seconds + first.left * then.seconds,
          first.left * then.left};
}

double rate(const Span& span) { return span.reuses / span.seconds; }

}  // namespace

const std::array<double, ReuseModel::kBins + 1>& ReuseModel::edges() {
  static const auto kEdges = [] {
    std::array<double, kBins + 1> edges{};
    for (std::size_t bin = 1; bin < kBins; ++bin) {
      edges[bin] = kFirstEdge * std::exp2(static_cast<double>(bin - 1) / kBinsPerOctave);
    }
    edges[kBins] = 1e18;
    return edges;
  }();
  return kEdges;
}

ReuseModel::Class ReuseModel::classify(std::span<const std::uint64_t> features) {
  Class found = 0;
  for (std::size_t level = 0; level < features.size(); ++level) {
    found = find_or_add(features[level], level, found);
  }
  return found;
}

ReuseModel::Class ReuseModel::find_or_add(std::uint64_t feature, std::size_t level, Class coarser) {
  AFI_CHECK(level < (1U << kLevelBits));
  const auto fresh = static_cast<Class>(classes_.size());
  const auto [it, added] = by_feature_.try_emplace(feature << kLevelBits | level, fresh);
  if (added) {
    classes_.emplace_back().coarser = level == 0 ? fresh : coarser;
    observed_.emplace_back();
    hazards_.emplace_back();
    indices_.emplace_back();
    estimate(fresh);
  }
  return it->second;
}

void ReuseModel::observe(Class finest, std::size_t bin, double seconds, double reused) {
  while (true) {
    ClassState& state = classes_[finest];
    observed_[finest].seconds[bin] += seconds;
    observed_[finest].reuses[bin] += reused;
    state.observed = true;
    if (state.coarser == finest) return;
    finest = state.coarser;
  }
}

void ReuseModel::outlived(Class finest, std::size_t bin) {
  const double seconds = begin_of(bin + 1) - begin_of(bin);
  while (true) {
    ClassState& state = classes_[finest];
    observed_[finest].seconds[bin] += seconds;
    state.observed = true;
    if (state.coarser == finest) return;
    finest = state.coarser;
  }
}

void ReuseModel::estimate(Class which) {
  const Class coarser = classes_[which].coarser;
  const bool coarsest = coarser == which;
  const Observed& known = observed_[which];
  std::array<Span, kBins> spans;  // a stack of `count` best spans from this age on, by rate
  std::size_t count = 0;
  for (std::size_t bin = kBins; bin-- > 0;) {
    const double age = bin == 0 ? kFirstEdge / 2 : begin_of(bin);
    const double believed = coarsest ? kReusesByOctave / age : hazards_[coarser][bin];
    const double prior =
        coarsest ? kPriorReuses / believed : std::min(kPriorReuses / believed, kLongestPrior);
    const double hazard = (known.reuses[bin] + prior * believed) / (known.seconds[bin] + prior);
    hazards_[which][bin] = hazard;

    const double width = bin + 1 == kBins ? age : begin_of(bin + 1) - begin_of(bin);
    const double left = std::exp(-hazard * width);
    Span best{1 - left, (1 - left) / hazard, left};
    while (count > 0 && rate(spans[count - 1]) >= rate(best)) best = join(best, spans[--count]);
    spans[count++] = best;
    indices_[which][bin] = rate(best);
  }
}

void ReuseModel::fade() {
  for (Class which = 0; which < classes_.size(); ++which) {
    ClassState& state = classes_[which];
    if (!std::exchange(state.observed, false)) continue;  // no member observed since the last fade
    for (double& seconds : observed_[which].seconds) seconds *= kFading;
    for (double& reuses : observed_[which].reuses) reuses *= kFading;
    state.stale = true;
  }
}

void ReuseModel::estimate() {
  for (Class which = 0; which < classes_.size(); ++which) {  // coarser ones first
    if (std::exchange(classes_[which].stale, false)) estimate(which);
  }
}

}  // namespace afterimage
