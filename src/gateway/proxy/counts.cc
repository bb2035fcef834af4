// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/counts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

#include "gateway/proxy/durations.h"

namespace afterimage {
namespace {

constexpr const char* kTranslated = "afterimage_translated_requests_total";
constexpr const char* kTranslatedHelp =
    "Requests of other APIs that became chat completions, answered or refused";
constexpr std::size_t kTenants = 200;
// Buckets: four for each doubling, equally wide, from 1,024 ns on.
constexpr std::size_t kSteps = 4;
constexpr Duration::rep kLeast = 1024;
constexpr unsigned kLeastBits = std::bit_width(static_cast<std::uint64_t>(kLeast));

}  // namespace

std::string_view to_string(LeaseOutcome outcome) {
  constexpr std::array<std::string_view, kLeaseOutcomes> kNames{"acquired", "elsewhere", "expired",
                                                                "unavailable"};
  return kNames[static_cast<std::size_t>(outcome)];
}

void Spread::add(Duration took) {
  const auto ns = static_cast<std::uint64_t>(std::max(took.count(), kLeast));
  const auto octave = static_cast<unsigned>(std::bit_width(ns)) - kLeastBits;
  const std::size_t bucket = kSteps * octave + (ns >> (octave + kLeastBits - 3)) - kSteps;
  ++counts_[std::min(bucket, counts_.size() - 1)];
}

std::uint64_t Spread::count() const {
  std::uint64_t all = 0;
  for (const auto& count : counts_) all += count;
  return all;
}

Duration Spread::quantile(double share) const {
  const std::uint64_t all = count();
  if (all == 0) return Duration(0);
  const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(all)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen < std::max<std::uint64_t>(1, rank)) continue;
    const double middle = 1 + (static_cast<double>(i % kSteps) + 0.5) / kSteps;
    return Duration(
        static_cast<Duration::rep>(std::ldexp(middle * kLeast, static_cast<int>(i / kSteps))));
  }
  return Duration(0);
}

Counts::Counts(Metrics& metrics)
    : metrics_(metrics),
      saved_seconds_(metrics.counter(
          "afterimage_saved_seconds_total",
          "Time that served answers took when they were computed, less the time to serve them")),
      saved_prompt_(metrics.counter("afterimage_saved_tokens_total",
                                    "Tokens that no model had to read", {{"kind", "prompt"}})),
      saved_output_(metrics.counter("afterimage_saved_tokens_total",
                                    "Tokens that no model had to read", {{"kind", "output"}})),
      messages_(metrics.counter(kTranslated, kTranslatedHelp, {{"protocol", "messages"}})),
      responses_(metrics.counter(kTranslated, kTranslatedHelp, {{"protocol", "responses"}})),
      prompts_(metrics) {
  for (std::size_t i = 0; i < kOutcomes; ++i) {
    const MetricLabels labels{{"outcome", std::string(to_string(static_cast<Outcome>(i)))}};
    by_outcome_.push_back({.duration = metrics.histogram(
                               "afterimage_request_duration_seconds",
                               "From the arrival of a request to the last byte of its answer",
                               labels, latency_buckets()),
                           .first_byte = metrics.histogram(
                               "afterimage_time_to_first_byte_seconds",
                               "From the arrival of a request to the first byte of its answer",
                               labels, latency_buckets())});
  }
  for (std::size_t i = 0; i < kLeaseOutcomes; ++i) {
    leases_.push_back(
        metrics.counter("afterimage_answer_leases_total",
                        "Questions that were not found and that other gateways may be asking, by "
                        "who asked the model",
                        {{"result", std::string(to_string(static_cast<LeaseOutcome>(i)))}}));
  }
  for (std::size_t i = 1; i < kStoreResults; ++i) {
    not_stored_.push_back(metrics.counter(
        "afterimage_answers_not_stored_total", "Answers of the model that were not stored",
        {{"reason", std::string(to_string(static_cast<StoreResult>(i)))}}));
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(Reason::kCount); ++i) {
    const auto reason = static_cast<Reason>(i);
    if (!is_bypass(reason)) continue;
    bypasses_.emplace(
        reason, metrics.counter("afterimage_bypasses_total",
                                "Requests that were not looked up in the cache and not stored",
                                {{"reason", std::string(to_string(reason))}}));
    if (remedy(reason).empty()) continue;
    repeats_.emplace(reason,
                     metrics.counter("afterimage_bypassed_repeats_total",
                                     "Requests that bypassed the cache and equal an earlier one",
                                     {{"reason", std::string(to_string(reason))}}));
  }
}

MetricCounter Counts::requests(const Decision& decision) {
  const std::tuple key(std::string_view(decision.operation), decision.outcome, decision.status);
  const MutexLock lock(mutex_);
  const auto known = series_.find(key);
  if (known != series_.end()) return known->second;
  return series_
      .emplace(SeriesKey(key),
               metrics_.counter("afterimage_requests_total", "Requests answered",
                                {{"operation", decision.operation},
                                 {"outcome", std::string(to_string(decision.outcome))},
                                 {"code", std::to_string(decision.status)}}))
      .first->second;
}

void Counts::count_protocol(const Decision& decision) {
  if (decision.protocol == "messages") messages_.add();
  if (decision.protocol == "responses") responses_.add();
}

std::uint64_t Counts::ended(const Decision& decision) {
  --in_flight_;
  ++outcomes_[static_cast<std::size_t>(decision.outcome)];
  requests(decision).add();
  count_protocol(decision);
  Series& series = by_outcome_[static_cast<std::size_t>(decision.outcome)];
  series.duration.observe(seconds(decision.took));
  series.first_byte.observe(seconds(decision.first_byte));
  if (decision.outcome == Outcome::kHit) hits_.add(decision.took);
  if (decision.outcome == Outcome::kMiss) misses_.add(decision.took);
  if (decision.saved > Duration(0)) {
    saved_ns_ += decision.saved.count();
    prompt_ += decision.saved_prompt_tokens;
    output_ += decision.saved_output_tokens;
    saved_seconds_.add(seconds(decision.saved));
    saved_prompt_.add(static_cast<double>(decision.saved_prompt_tokens));
    saved_output_.add(static_cast<double>(decision.saved_output_tokens));
  }
  count_tenant(decision);
  if (decision.outcome != Outcome::kBypass || !is_bypass(decision.reason)) return 0;
  const auto reason = static_cast<std::size_t>(decision.reason);
  bypasses_.at(decision.reason).add();
  if (decision.repeats) {
    repeats_.at(decision.reason).add();
    ++repeated_[reason];
  }
  return ++bypassed_[reason];
}

void Counts::count_tenant(const Decision& decision) {
  const MutexLock lock(mutex_);
  auto it = tenants_.find(decision.tenant);
  if (it == tenants_.end()) {
    const std::string name = tenants_.size() < kTenants ? decision.tenant : "other";
    it = tenants_
             .try_emplace(name,
                          TenantCounts{.name = name, .cache_namespace = decision.cache_namespace})
             .first;
  }
  ++it->second.outcomes[static_cast<std::size_t>(decision.outcome)];
  ++it->second.requests;
  if (decision.outcome == Outcome::kHit || decision.outcome == Outcome::kJoined) ++it->second.hits;
  it->second.saved += decision.saved;
}

void Counts::compared(bool same) {
  // Who sees a comparison sees its result: snapshot() reads in the opposite order.
  if (!same) ++wrong_;
  ++compared_;
}

void Counts::reported_wrong(std::string_view level) {
  metrics_
      .counter("afterimage_reported_wrong_total",
               "Answers that clients or operators reported as wrong, by the match level that "
               "served them",
               {{"match_level", level.empty() ? "model" : std::string(level)}})
      .add();
}

void Counts::stabilised(std::string_view change, std::size_t parts) {
  metrics_
      .counter("afterimage_prompt_stabilised_total",
               "Parts of prompts that were changed so that they begin as the one before",
               {{"change", std::string(change)}})
      .add(static_cast<double>(parts));
}

void Counts::upstream_answered(unsigned status) {
  const MutexLock lock(mutex_);
  auto known = answered_.find(status);
  if (known == answered_.end()) {
    known = answered_
                .emplace(status, metrics_.counter("afterimage_upstream_requests_total",
                                                  "Responses of the upstream or engine, by status",
                                                  {{"code", std::to_string(status)}}))
                .first;
  }
  known->second.add();
}

void Counts::upstream_failed(std::string_view kind) {
  metrics_
      .counter("afterimage_upstream_errors_total",
               "Responses of the upstream or engine that did not arrive or could not be cached",
               {{"kind", std::string(kind)}})
      .add();
}

Counts::Snapshot Counts::snapshot() const {
  Snapshot shot{.outcomes = {},
                .bypasses = {},
                .prefix_causes = prompts_.causes(),
                .in_flight = in_flight_,
                .saved = Duration(saved_ns_.load()),
                .saved_prompt_tokens = prompt_,
                .saved_output_tokens = output_,
                .compared = compared_,
                .wrong = wrong_,
                .tenants = {}};
  for (std::size_t i = 0; i < kOutcomes; ++i) shot.outcomes[i] = outcomes_[i];
  for (std::size_t i = 0; i < bypassed_.size(); ++i) {
    const std::uint64_t requests = bypassed_[i];
    if (requests == 0) continue;
    // A request is counted as a repeat before it is counted as a bypass.
    shot.bypasses.push_back({.reason = static_cast<Reason>(i),
                             .requests = requests,
                             .repeats = std::min(requests, repeated_[i].load())});
  }
  std::ranges::sort(shot.bypasses, std::ranges::greater(), &Snapshot::Bypasses::requests);
  const MutexLock lock(mutex_);
  for (const auto& [name, counts] : tenants_) shot.tenants.push_back(counts);
  return shot;
}

}  // namespace afterimage
