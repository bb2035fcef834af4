// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/units.h"
#include "bench/load/load_run.h"
#include "bench/load/load_traffic.h"

namespace afterimage {

/// What a good answer may take; absent: any time.
struct LoadLimits {
  std::optional<Duration> first_token = std::nullopt;
  std::optional<Duration> per_token = std::nullopt;
  std::optional<Duration> latency = std::nullopt;

  [[nodiscard]] bool any() const { return first_token || per_token || latency; }
};

/// Of exact values, not of a histogram.
struct LoadTimes {
  std::uint64_t count = 0;
  Duration mean{0}, p50{0}, p90{0}, p99{0}, most{0};
};
[[nodiscard]] LoadTimes times_of(std::vector<Duration> values);

/// One part of the run, by when requests were due.
struct LoadWindow {
  double from_s = 0;
  double answered_per_s = 0;
  double failed_per_s = 0;
  LoadTimes first_token, latency;
};

/// A run, summed up. Warm-up requests are in none of the numbers. Latencies are of answered requests,
/// from when they were due: in an open loop a server that falls behind cannot hide it by making the
/// client wait.
struct LoadReport {
  LoadContent content;
  std::string load;    // how requests were sent, for people
  std::string server;  // its URL
  LoadLimits limits;
  std::uint64_t requests = 0;
  std::uint64_t answered = 0;
  std::uint64_t good = 0;  // answered within the limits
  std::uint64_t refused = 0, broken = 0, invalid = 0;
  double seconds = 0;
  double offered_per_s = 0, answered_per_s = 0, good_per_s = 0, tokens_per_s = 0;
  double sent_mib = 0;
  LoadTimes first_token, per_token, latency;
  LoadTimes hit_latency, miss_latency;
  LoadTimes late;                        // from when a request was due until it was sent
  std::array<std::uint64_t, 5> cache{};  // by CacheWord
  std::uint64_t prompt_tokens = 0, cached_tokens = 0;
  std::vector<std::pair<std::string, std::uint64_t>> replicas, routes;
  std::map<std::string, std::uint64_t> failures;
  std::vector<LoadWindow> windows;
};

/// `warm_up`: the first share of the requests, 0 to 1, which is left out.
[[nodiscard]] LoadReport load_report(const LoadTrace& trace, const LoadResult& result,
                                     const LoadLimits& limits, double warm_up);

[[nodiscard]] std::string to_table(const LoadReport& report);
[[nodiscard]] std::string to_json(const LoadReport& report);
/// A self-contained page.
[[nodiscard]] std::string to_html(const LoadReport& report);

/// Label and value of each line of the table; a line without a value is a heading.
[[nodiscard]] std::vector<std::vector<std::string>> report_rows(const LoadReport& report);

}  // namespace afterimage
