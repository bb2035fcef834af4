// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "afterimage/clock.h"
#include "foundation/telemetry/log.h"

namespace afterimage {

/// Logs "tier_degraded" when a tier begins to do less than it should, or does so for another reason,
/// and "tier_recovered" when it does all again.
///
/// Cost     At most one line of each a minute and tier, however often it changes.
/// Threads  Not thread-safe.
class TierWatch {
 public:
  static constexpr Duration kBetweenLines = std::chrono::minutes(1);

  /// Both outlive it.
  TierWatch(Log& log, const Clock& clock) : log_(log), clock_(clock) {}

  /// To be called regularly. `reason`: TierStats::degraded_reason.
  void look(std::string_view tier, const std::string& reason);

 private:
  struct Told {
    std::string reason;  // of the last line; empty: recovered, or never degraded
    Duration next{Duration::min()};
  };
  Log& log_;
  const Clock& clock_;
  std::map<std::string, Told, std::less<>> told_;
};

}  // namespace afterimage
