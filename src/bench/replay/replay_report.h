// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/replay/replay.h"
#include "bench/workload/trace.h"

namespace afterimage {

/// The results of one replayed trace, with a description of the trace.
struct ReplayReport {
  ReplayReport(std::string trace_name, const Trace& trace, ReplayOptions with,
               std::vector<ReplayResult> found);

  /// In order of replay.
  [[nodiscard]] std::vector<std::string> policies() const;
  [[nodiscard]] std::vector<std::string> capacities() const;
  /// nullptr: not replayed.
  [[nodiscard]] const ReplayResult* find(std::string_view policy, std::string_view capacity) const;

  /// Share of the gap between lru and min that a policy closes: (x - lru) ÷ (min - lru), for one
  /// measure. None if either was not replayed at this capacity or the gap is empty.
  [[nodiscard]] std::optional<double> gap_closed(const ReplayResult& result,
                                                 double ReplayResult::* measure) const;
  /// Share of the media that needed no encoding, because they lay in a prefix that hit or their
  /// output was cached; 0 if there are none.
  [[nodiscard]] double media_reused(const ReplayResult& result) const;
  /// The size of the trace, and non-default replay options, one line each.
  [[nodiscard]] std::string description() const;

  std::string name;
  std::uint64_t requests = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t sessions = 0;
  std::uint64_t media = 0;          // occurrences
  std::uint64_t counted_media = 0;  // after the warm-up
  std::uint64_t items = 0;          // distinct ones
  std::uint32_t distinct_blocks = 0;
  std::uint32_t block_tokens = 0;
  Duration span{0};
  std::vector<RejectedLine> rejected;
  ReplayOptions options;
  std::vector<ReplayResult> results;
};

/// Whether this is one of the bounds "min" and "infinite", which no real policy can reach.
bool is_bound(const ReplayResult& result);

/// Human-readable: policies by capacities, the bounds below them.
std::string to_table(const ReplayReport& report);

/// Machine-readable: {"traces": […], "results": [{"trace", "policy", "capacity", …}]}.
std::string to_json(std::span<const ReplayReport> reports);

}  // namespace afterimage
