// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/service/tier_watch.h"

namespace afterimage {

void TierWatch::look(std::string_view tier, const std::string& reason) {
  Told& told = told_[std::string(tier)];
  if (reason == told.reason) return;
  // What passes within a minute of the last line is not told.
  const Duration now = clock_.now();
  if (now < told.next) return;
  told.reason = reason;
  told.next = now + kBetweenLines;
  if (reason.empty()) return log_.info("tier_recovered", {{"tier", tier}});
  log_.warn("tier_degraded", {{"tier", tier}, {"why", reason}});
}

}  // namespace afterimage
