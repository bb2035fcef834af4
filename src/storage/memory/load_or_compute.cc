// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/load_or_compute.h"

#include <algorithm>
#include <chrono>

namespace afterimage {
namespace {

constexpr double kKeepsAnEntry = 1 - 1.0 / 32;
constexpr std::uint64_t kLeastLoads = 3;

Duration scaled(Duration d, double factor) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(d.count()) * factor));
}

/// Index of the tier of a stack that will serve the get.
std::size_t place_of(const Tier& tier, const TierKey& key) {
  const auto metadata = tier.metadata(key);
  return metadata.has_value() ? metadata->place : 0;
}

}  // namespace

LoadOrCompute::LoadOrCompute(const Clock& clock, const LoadOrComputeOptions& options)
    : clock_(clock), options_(options) {
  for (Place& place : places_) place.credited_at = clock.now();
}

/// Weight of the estimate: 0 before there are a few loads, 1 after enough.
double LoadOrCompute::trust(const Place& place) const {
  const std::uint64_t loads = place.rate.loads();
  if (loads < kLeastLoads) return 0;
  return std::min(1.0, static_cast<double>(loads) / static_cast<double>(options_.trusted_loads));
}

LoadChoice LoadOrCompute::choose(std::span<const LoadStep> steps) {
  const MutexLock lock(mutex_);
  LoadChoice choice{.steps = steps.size()};
  Duration saved{0};
  Duration most_saved{0};
  std::size_t best = 0;
  bool measured = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const LoadStep& step = steps[i];
    if (step.cost <= Duration(0)) return choice;
    const Place& place = at(step.place);
    const Duration expected = place.rate.expected(step.bytes, step.gets);
    measured = measured || trust(place) > 0;
    choice.load += expected;
    choice.compute += step.cost;
    saved += step.cost - scaled(expected, trust(place));
    if (saved < most_saved) continue;  // prefers loading if equal: it leaves the engine free
    most_saved = saved;
    best = i + 1;
    choice.spares = choice.compute;
  }
  if (!measured) return choice;
  choice.steps = best;
  choice.reason = LoadReason::kQuicker;
  if (best == 0) {
    Place& first = at(steps[0].place);
    const Duration at_risk = first.rate.expected(steps[0].bytes, steps[0].gets) - steps[0].cost;
    const bool probes = may_probe(first, at_risk);
    choice.reason = probes ? LoadReason::kProbe : LoadReason::kSlower;
    if (probes) {
      ++probes_;
      choice.steps = 1;
      choice.gets = steps[0].gets;
      choice.spares = steps[0].cost;
      choice.at_risk = at_risk;
    }
  }
  if (choice.steps < steps.size()) ++declined_;
  return choice;
}

bool LoadOrCompute::may_probe(Place& place, Duration at_risk) {
  const Duration now = clock_.now();
  place.credit += scaled(now - place.credited_at, options_.probing);
  place.credited_at = now;
  if (at_risk > place.credit) return false;
  place.credit = Duration(0);  // one probe at a time
  return true;
}

void LoadOrCompute::loaded(Bytes bytes, Duration took, const LoadChoice& choice,
                           std::size_t place) {
  const Duration now = clock_.now();
  const MutexLock lock(mutex_);
  Place& from = at(place);
  from.rate.add(bytes, took, now);
  from.credit = Duration(0);
  from.credited_at = now;
  if (choice.reason != LoadReason::kProbe) return;
  // The next probe may lose what this one did not.
  const Duration lost = std::max(took * choice.gets - choice.spares, Duration(0));
  from.credit = std::max(choice.at_risk - lost, Duration(0));
}

Result<std::optional<TierEntry>> LoadOrCompute::get(Tier& tier, const TierKey& key,
                                                    MemoryBudget& room, const LoadStep& step,
                                                    const LoadChoice& choice) {
  const std::size_t place = place_of(tier, key);
  const Duration began = clock_.now();
  auto entry = tier.get(key, room);
  note(key, place, entry, clock_.now() - began, step, choice);
  return entry;
}

std::vector<Result<std::optional<TierEntry>>> LoadOrCompute::get_all(Tier& tier,
                                                                     std::span<const TierKey> keys,
                                                                     MemoryBudget& room,
                                                                     const LoadStep& step,
                                                                     const LoadChoice& choice) {
  // Determined before the get, which promotes entries.
  std::vector<std::size_t> places;
  for (const TierKey& key : keys) places.push_back(place_of(tier, key));
  const Duration began = clock_.now();
  auto entries = tier.get_all(keys, room);
  if (keys.empty()) return entries;
  const Duration each = (clock_.now() - began) / keys.size();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    note(keys[i], places[i], entries[i], each, step, choice);
  }
  return entries;
}

void LoadOrCompute::note(const TierKey& key, std::size_t place,
                         const Result<std::optional<TierEntry>>& entry, Duration took,
                         const LoadStep& step, const LoadChoice& choice) {
  if (!entry.has_value()) {
    // A full budget says nothing about the tier.
    if (entry.error().code == ErrorCode::kNoSpace) return;
    const std::uint64_t gets = std::max(step.gets, 1U);
    loaded(Bytes(step.bytes.value() / gets), took + step.cost / gets, {}, place);
    return;
  }
  if (!entry->has_value()) {
    loaded(Bytes(0), took, {}, place);
    return;
  }
  const Bytes bytes((*entry)->bytes.size());
  loaded(bytes, took, choice, place);
  learn(key.entry_class, bytes, (*entry)->meta.cost);
}

const LoadOrCompute::Seen& LoadOrCompute::seen(EntryClass entry_class) const {
  return seen_.at(static_cast<std::size_t>(entry_class));
}

void LoadOrCompute::learn(EntryClass entry_class, Bytes bytes, Duration cost) {
  if (cost <= Duration(0)) return;
  const MutexLock lock(mutex_);
  Seen& seen = seen_.at(static_cast<std::size_t>(entry_class));
  seen.entries = seen.entries * kKeepsAnEntry + 1;
  seen.bytes = seen.bytes * kKeepsAnEntry + static_cast<double>(bytes.value());
  seen.seconds = seen.seconds * kKeepsAnEntry + std::chrono::duration<double>(cost).count();
}

Duration LoadOrCompute::typical_cost(EntryClass entry_class, Bytes bytes) const {
  const Seen& all = seen(entry_class);
  if (all.bytes <= 0) return Duration(0);
  const double cost = all.seconds / all.bytes * static_cast<double>(bytes.value());
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(cost, 1e8)));
}

Duration LoadOrCompute::cost_of(EntryClass entry_class, Bytes bytes) const {
  const MutexLock lock(mutex_);
  return typical_cost(entry_class, bytes);
}

bool LoadOrCompute::expects_slower(const LoadStep& step) const {
  if (step.cost <= Duration(0)) return false;
  const MutexLock lock(mutex_);
  const Place& place = at(step.place);
  return scaled(place.rate.expected(step.bytes, step.gets), trust(place)) > step.cost;
}

LoadStep LoadOrCompute::step_of(EntryClass entry_class,
                                const std::optional<EntryMetadata>& metadata) const {
  const EntryMetadata known = metadata.value_or(EntryMetadata());
  const MutexLock lock(mutex_);
  const Seen& all = seen(entry_class);
  const double mean = all.entries > 0 ? all.bytes / all.entries : 0;
  LoadStep step{.bytes = known.bytes, .cost = known.cost, .place = known.place};
  if (step.bytes == 0_B) step.bytes = Bytes(static_cast<std::uint64_t>(mean));
  if (step.cost <= Duration(0)) step.cost = typical_cost(entry_class, step.bytes);
  return step;
}

LoadOrComputeStats LoadOrCompute::stats() const {
  const MutexLock lock(mutex_);
  LoadOrComputeStats stats{.declined = declined_, .probes = probes_};
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const LoadRate& rate = places_[i].rate;
    stats.places[i] = {.loads = rate.loads(),
                       .latency = rate.latency(),
                       .seconds_per_byte = rate.loads() == 0 ? 0 : rate.seconds_per_byte()};
  }
  return stats;
}

}  // namespace afterimage
