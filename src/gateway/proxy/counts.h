// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "foundation/platform/mutex.h"
#include "foundation/telemetry/metrics.h"
#include "gateway/prompts/prefix_causes.h"
#include "gateway/proxy/decisions.h"
#include "gateway/proxy/prompt_counts.h"
#include "gateway/proxy/reasons.h"

namespace afterimage {

/// A histogram of durations, exact to an eighth.
/// Threads  Any.
class Spread {
 public:
  void add(Duration took);
  [[nodiscard]] std::uint64_t count() const;
  /// `share` in [0, 1]; 0 s if there are none.
  [[nodiscard]] Duration quantile(double share) const;

 private:
  std::array<std::atomic<std::uint64_t>, 160> counts_{};
};

/// The requests of one tenant.
struct TenantCounts {
  std::string name;
  std::string cache_namespace;  // the tenant whose namespace it uses
  std::array<std::uint64_t, kOutcomes> outcomes{};
  std::uint64_t requests = 0;
  std::uint64_t hits = 0;
  Duration saved{0};
};

/// What became of a question that other gateways may be asking, too.
enum class LeaseOutcome : unsigned char {
  kAcquired,    // this gateway asked the backend
  kElsewhere,   // another one did, and its answer was found
  kExpired,     // another one did; this one waited for as long as it may, and then asked, too
  kUnavailable  // the servers did not say who holds the lease; this gateway asked
};
inline constexpr std::size_t kLeaseOutcomes = 4;
/// "acquired", "elsewhere", "expired", "unavailable".
std::string_view to_string(LeaseOutcome outcome);

/// Everything that the gateway counts of requests, for the page and for Prometheus.
/// Threads  Any.
class Counts {
 public:
  explicit Counts(Metrics& metrics);

  void began() { ++in_flight_; }
  /// Returns how many requests bypassed the cache for the same reason, this one included; 0: it did
  /// not.
  std::uint64_t ended(const Decision& decision);
  /// A served answer was compared with a new one of the model.
  void compared(bool same);
  /// Somebody says that an answer was wrong. `level`: which served it; empty: the model did.
  void reported_wrong(std::string_view level);
  void leased(LeaseOutcome outcome) { leases_[static_cast<std::size_t>(outcome)].add(); }
  void not_stored(StoreResult why) { not_stored_[static_cast<std::size_t>(why) - 1].add(); }
  /// Parts of prompts that were changed, as Stabilising names the change.
  void stabilised(std::string_view change, std::size_t parts);
  /// What prompts lost that the server could have reused.
  [[nodiscard]] PromptCounts& prompts() { return prompts_; }
  void upstream_answered(unsigned status);
  void upstream_failed(std::string_view kind);

  struct Snapshot {
    std::array<std::uint64_t, kOutcomes> outcomes{};
    /// The requests that bypassed the cache for one reason.
    struct Bypasses {
      Reason reason = Reason::kNone;
      std::uint64_t requests = 0;
      std::uint64_t repeats = 0;  // of them: equal to an earlier one
    };
    std::vector<Bypasses> bypasses;                 // the most frequent reason first
    std::vector<PrefixCauses::Cost> prefix_causes;  // the dearest first
    std::uint64_t in_flight = 0;
    Duration saved{0};
    std::uint64_t saved_prompt_tokens = 0;
    std::uint64_t saved_output_tokens = 0;
    std::uint64_t compared = 0;
    std::uint64_t wrong = 0;
    std::vector<TenantCounts> tenants;
  };
  [[nodiscard]] Snapshot snapshot() const;
  [[nodiscard]] const Spread& hits() const { return hits_; }
  [[nodiscard]] const Spread& misses() const { return misses_; }

 private:
  struct Series {
    MetricHistogram duration;
    MetricHistogram first_byte;
  };
  MetricCounter requests(const Decision& decision);
  void count_protocol(const Decision& decision);
  void count_tenant(const Decision& decision);

  Metrics& metrics_;
  std::vector<Series> by_outcome_;
  MetricCounter saved_seconds_;
  MetricCounter saved_prompt_;
  MetricCounter saved_output_;
  MetricCounter messages_;                 // translated from Anthropic's API
  MetricCounter responses_;                // and from OpenAI's /v1/responses
  std::vector<MetricCounter> leases_;      // by LeaseOutcome
  std::vector<MetricCounter> not_stored_;  // by StoreResult, without kStored
  std::map<Reason, MetricCounter> bypasses_;
  std::map<Reason, MetricCounter> repeats_;
  Spread hits_;
  Spread misses_;
  std::array<std::atomic<std::uint64_t>, kOutcomes> outcomes_{};
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Reason::kCount)> bypassed_{};
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Reason::kCount)> repeated_{};
  std::atomic<std::uint64_t> in_flight_ = 0;
  std::atomic<std::int64_t> saved_ns_ = 0;
  std::atomic<std::uint64_t> prompt_ = 0;
  std::atomic<std::uint64_t> output_ = 0;
  std::atomic<std::uint64_t> compared_ = 0;
  std::atomic<std::uint64_t> wrong_ = 0;
  PromptCounts prompts_;
  mutable Mutex mutex_;
  std::map<std::string, TenantCounts, std::less<>> tenants_ AFI_GUARDED_BY(mutex_);
  using SeriesKey = std::tuple<std::string, Outcome, unsigned>;  // operation, outcome, status
  std::map<SeriesKey, MetricCounter, std::less<>> series_ AFI_GUARDED_BY(mutex_);
  std::map<unsigned, MetricCounter> answered_ AFI_GUARDED_BY(mutex_);  // by the upstream's status
};

}  // namespace afterimage
