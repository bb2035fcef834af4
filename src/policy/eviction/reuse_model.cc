// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/reuse_model.h"

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <cmath>
#include <utility>

#include "afterimage/result.h"

namespace afterimage {
namespace {

constexpr double kFirstEdge = 2;  // seconds
constexpr std::size_t kBinsPerOctave = 4;
constexpr double kReusesByOctave = 0.1;  // prior hazard × age
// Weight of the prior: one reuse, or this many seconds without reuse.
constexpr double kPriorReuses = 1;
constexpr double kLongestPrior = 300;
constexpr double kFading = 0.999;  // per fade()
constexpr unsigned kLevelBits = 3;
constexpr double kNatsOfEvidence = 0.25;
constexpr double kAllReused = 1e-12;    // a share below which evidence changes nothing
constexpr double kLeastHazard = 1e-12;  // per second: no rate is zero

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

// The first bin is an octave of its own.
std::size_t octave_of(std::size_t bin) { return (bin + kBinsPerOctave - 1) / kBinsPerOctave; }

double age_of(std::size_t bin) { return bin == 0 ? kFirstEdge / 2 : ReuseModel::begin_of(bin); }

// The logarithm in the middle of a bin; those of octaves are for their middles.
double log_at(const ReuseRegression::LogHazards& logs, std::size_t bin) {
  if (bin == 0) return logs[0];
  constexpr auto kOctave = static_cast<double>(kBinsPerOctave);
  const double at = (static_cast<double>(bin) + (kOctave - 1) / 2) / kOctave;
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, logs.size() - 1);
  const double part = at - static_cast<double>(below);
  return (1 - part) * logs[below] + part * logs[above];
}

}  // namespace

const std::array<double, ReuseModel::kBins + 1>& ReuseModel::edges() {
  static const auto kEdges = [] {
    std::array<double, kBins + 1> edges{};
    for (std::size_t bin = 1; bin < kBins; ++bin) {
      edges[bin] = kFirstEdge *
                   std::exp2(static_cast<double>(bin - 1) / static_cast<double>(kBinsPerOctave));
    }
    edges[kBins] = 1e18;
    return edges;
  }();
  return kEdges;
}

std::size_t ReuseModel::KeyHash::operator()(const Key& key) const {
  std::size_t hash = boost::hash_range(key.traits.values.begin(), key.traits.values.end());
  boost::hash_combine(hash, key.traits.kind);
  boost::hash_range(hash, key.finest.begin(), key.finest.end());
  boost::hash_combine(hash, key.evidence);
  return hash;
}

ReuseModel::Class ReuseModel::classify(const Features& features, const Traits& traits,
                                       int evidence) {
  AFI_CHECK(!features.common.empty());
  Table common = 0;
  std::size_t level = 0;
  for (const std::uint64_t feature : features.common) {
    common = find_or_add(feature, level++, common, /*common=*/true);
  }
  PerBranch finest;
  for (std::size_t branch = 0; branch < kBranches; ++branch) {
    finest[branch] = common;
    for (const std::uint64_t feature : features.branches[branch]) {
      finest[branch] = find_or_add(feature, level++, finest[branch], /*common=*/false);
    }
  }
  const auto fresh = static_cast<Class>(free_.empty() ? profiles_.size() : free_.back());
  const Key key{.finest = finest, .traits = traits, .evidence = evidence};
  const auto [it, added] = by_profile_.try_emplace(key, fresh);
  if (added && free_.empty()) profiles_.emplace_back();
  if (added && !free_.empty()) free_.pop_back();
  if (added) profiles_[fresh] = {.finest = finest, .traits = traits, .evidence = evidence};
  ++profiles_[it->second].users;
  return it->second;
}

void ReuseModel::release(Class released) {
  const Profile& profile = profiles_[released];
  AFI_CHECK(profile.users > 0);
  if (--profiles_[released].users > 0) return;
  by_profile_.erase(
      {.finest = profile.finest, .traits = profile.traits, .evidence = profile.evidence});
  released_.push_back(released);
}

ReuseModel::Table ReuseModel::find_or_add(std::uint64_t feature, std::size_t level, Table coarser,
                                          bool common) {
  AFI_CHECK(level < (1U << kLevelBits));
  const std::uint64_t key = feature << kLevelBits | level;
  const auto known = by_feature_.find(key);
  if (known != by_feature_.end()) return known->second;
  if (tables_.size() >= kMostTables) return coarser;
  const auto fresh = static_cast<Table>(tables_.size());
  by_feature_.emplace(key, fresh);
  tables_.push_back({.coarser = level == 0 ? fresh : coarser, .common = common});
  observed_.emplace_back();
  hazards_.emplace_back();
  estimate(fresh);
  return fresh;
}

// Common tables once.
template <typename Function>
void ReuseModel::for_each_table(const Profile& profile, const Function& function) {
  for (std::size_t branch = 0; branch < kBranches; ++branch) {
    for (Table table = profile.finest[branch];; table = tables_[table].coarser) {
      if (branch > 0 && tables_[table].common) break;
      function(table);
      if (tables_[table].coarser == table) break;
    }
  }
}

void ReuseModel::observe(Class member, std::size_t bin, double seconds, double reused) {
  const Profile& profile = profiles_[member];
  const std::size_t octave = octave_of(bin);
  const double in_octave = seconds + begin_of(bin) - ReuseRegression::begin_of(octave);
  regression_.learn(profile.traits, octave, in_octave, reused);
  for_each_table(profile, [&](Table table) {
    observed_[table].seconds[bin] += seconds;
    observed_[table].reuses[bin] += reused;
    tables_[table].observed = true;
  });
}

void ReuseModel::outlived(Class member, std::size_t bin) {
  const Profile& profile = profiles_[member];
  const std::size_t octave = octave_of(bin);
  if (octave_of(bin + 1) != octave) {
    const double seconds = begin_of(bin + 1) - ReuseRegression::begin_of(octave);
    regression_.learn(profile.traits, octave, seconds, 0);
  }
  const double seconds = begin_of(bin + 1) - begin_of(bin);
  for_each_table(profile, [&](Table table) {
    observed_[table].seconds[bin] += seconds;
    tables_[table].observed = true;
  });
}

void ReuseModel::estimate(Table which) {
  const Table coarser = tables_[which].coarser;
  const bool coarsest = coarser == which;
  const Observed& known = observed_[which];
  Hazards& hazards = hazards_[which];
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const double believed = coarsest ? kReusesByOctave / age_of(bin)
                                     : static_cast<double>(hazards_[coarser].values[bin]);
    const double prior =
        coarsest ? kPriorReuses / believed : std::min(kPriorReuses / believed, kLongestPrior);
    hazards.values[bin] =
        static_cast<float>((known.reuses[bin] + prior * believed) / (known.seconds[bin] + prior));
    hazards.logs[bin] = std::log(hazards.values[bin]);
  }
}

// By Bayes' rule evidence multiplies the share of the members that will be reused by its ratio, and
// leaves the share that will not. What survives to an age is the sum of both.
void ReuseModel::weigh(const Profile& profile, PerBin& hazards) {
  const double ratio = std::exp(kNatsOfEvidence * profile.evidence);
  const double never = 1 - profile.probability;
  const auto weighed = [&](double alive) { return ratio * (alive - never) + never; };
  double alive = 1;
  for (std::size_t bin = 0; bin < kResolved; ++bin) {
    const double width = begin_of(bin + 1) - begin_of(bin);
    const double then = std::max(alive * std::exp(-hazards[bin] * width), never);
    if (then <= kAllReused) return;
    hazards[bin] = std::max(std::log(weighed(alive) / weighed(then)) / width, kLeastHazard);
    alive = then;
  }
}

void ReuseModel::estimate(Profile& profile) const {
  const ReuseRegression::LogHazards logs = regression_.log_hazards(profile.traits);
  PerBin hazards;
  double expected = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const float tables =
        hazards_[profile.finest[0]].logs[bin] + hazards_[profile.finest[1]].logs[bin];
    hazards[bin] = std::exp((tables + static_cast<float>(log_at(logs, bin))) / 3);
    if (bin < kResolved) expected += hazards[bin] * (begin_of(bin + 1) - begin_of(bin));
  }
  profile.probability = static_cast<float>(1 - std::exp(-expected));
  if (profile.evidence != 0) weigh(profile, hazards);
  std::array<Span, kBins> spans;  // a stack of `count` best spans from this age on, by rate
  std::size_t count = 0;
  for (std::size_t bin = kBins; bin-- > 0;) {
    const double width = bin + 1 == kBins ? age_of(bin) : begin_of(bin + 1) - begin_of(bin);
    const double left = std::exp(-hazards[bin] * width);
    Span best{1 - left, (1 - left) / hazards[bin], left};
    while (count > 0 && rate(spans[count - 1]) >= rate(best)) best = join(best, spans[--count]);
    spans[count++] = best;
    profile.indices[bin] = static_cast<float>(rate(best));
  }
}

void ReuseModel::fade() {
  for (Table which = 0; which < tables_.size(); ++which) {
    TableState& state = tables_[which];
    if (!std::exchange(state.observed, false)) continue;  // no member observed since the last fade
    for (double& seconds : observed_[which].seconds) seconds *= kFading;
    for (double& reuses : observed_[which].reuses) reuses *= kFading;
    state.stale = true;
  }
}

void ReuseModel::estimate() {
  for (Table which = 0; which < tables_.size(); ++which) {  // coarser ones first
    if (std::exchange(tables_[which].stale, false)) estimate(which);
  }
  ++estimated_;
  free_.insert(free_.end(), released_.begin(), released_.end());
  released_.clear();
}

}  // namespace afterimage
