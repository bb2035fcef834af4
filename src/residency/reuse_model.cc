// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/residency/reuse_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "afterimage/check.h"

namespace afterimage {
namespace {

constexpr double kFirstEdge = 2;  // seconds
constexpr double kBinsPerOctave = 4;
constexpr double kReusesByOctave = 0.1;  // of the unknown: hazard × age
// How much evidence outweighs what is believed beforehand: one reuse, or this many seconds without.
constexpr double kPriorReuses = 1;
constexpr double kLongestPrior = 300;
constexpr double kFading = 0.999;  // each time
constexpr unsigned kLevelBits = 3;

// From one age on: reuses expected, seconds of being kept until then, and how many are left over.
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
    estimate(fresh);
  }
  return it->second;
}

void ReuseModel::observe(Class finest, std::size_t bin, double seconds, double reused) {
  while (true) {
    Knowledge& known = classes_[finest];
    known.seconds[bin] += seconds;
    known.reuses[bin] += reused;
    known.observed = true;
    if (known.coarser == finest) return;
    finest = known.coarser;
  }
}

void ReuseModel::estimate(Class which) {
  Knowledge& known = classes_[which];
  std::array<Span, kBins> spans;  // the last `count`: best spans from here on, rates falling
  std::size_t count = 0;
  for (std::size_t bin = kBins; bin-- > 0;) {
    const double age = bin == 0 ? kFirstEdge / 2 : begin_of(bin);
    const bool coarsest = known.coarser == which;
    const double believed = coarsest ? kReusesByOctave / age : classes_[known.coarser].hazard[bin];
    const double prior =
        coarsest ? kPriorReuses / believed : std::min(kPriorReuses / believed, kLongestPrior);
    const double hazard = (known.reuses[bin] + prior * believed) / (known.seconds[bin] + prior);
    known.hazard[bin] = hazard;

    const double width = bin + 1 == kBins ? age : begin_of(bin + 1) - begin_of(bin);
    const double left = std::exp(-hazard * width);
    Span best{1 - left, (1 - left) / hazard, left};
    while (count > 0 && rate(spans[count - 1]) >= rate(best)) best = join(best, spans[--count]);
    spans[count++] = best;
    known.index[bin] = rate(best);
  }
}

void ReuseModel::fade() {
  for (Knowledge& known : classes_) {
    if (!std::exchange(known.observed, false)) continue;  // nobody is of that class now
    for (double& reuses : known.reuses) reuses *= kFading;
    for (double& seconds : known.seconds) seconds *= kFading;
    known.stale = true;
  }
}

void ReuseModel::estimate() {
  for (Class which = 0; which < classes_.size(); ++which) {  // coarser ones first
    if (std::exchange(classes_[which].stale, false)) estimate(which);
  }
}

}  // namespace afterimage
