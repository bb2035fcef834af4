// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/replica_health.h"

#include <algorithm>
#include <cmath>

namespace afterimage {

void ReplicaHealth::eject(Duration now) {
  const bool again = last_ > Duration(0) && (is_ejected_ || now - well_since_ < 2 * last_);
  last_ = again ? std::min(2 * last_, kLongestEjection) : kFirstEjection;
  is_ejected_ = true;
  until_ = now + last_;
  ++ejections_;
  failures_ = 0;
  timeouts_ = 0;
}

void ReplicaHealth::recover(Duration now) {
  failures_ = 0;
  timeouts_ = 0;
  if (!is_ejected_) return;
  is_ejected_ = false;
  by_connection_ = false;
  well_since_ = now;
}

void ReplicaHealth::called(CallResult result, Duration now, bool may_eject) {
  if (result == CallResult::kBusy || result == CallResult::kCancelled) return;
  if (ejected(now)) return;  // a call that was on its way says nothing new
  if (result == CallResult::kAnswered) return recover(now);
  const bool on_its_trial = is_ejected_;
  const bool connection = result == CallResult::kConnection;
  bool ejects = connection;
  if (result == CallResult::kTimeout) ejects = ++timeouts_ >= kTimeouts || on_its_trial;
  if (result == CallResult::kStatus) {
    ejects = (++failures_ >= kStatusFailures || on_its_trial) && may_eject;
  }
  if (!ejects) return;
  by_connection_ = connection;
  eject(now);
}

void ReplicaHealth::probed(bool answered, Duration now) {
  if (answered) {
    probe_failures_ = 0;
    if (is_ejected_ && by_connection_) recover(now);
    return;
  }
  if (++probe_failures_ < kProbeFailures || ejected(now)) return;
  by_connection_ = true;
  eject(now);
}

void RetryBudget::decay(Duration now) {
  constexpr double kSeconds = 60;
  const double passed = std::chrono::duration<double>(now - at_).count();
  if (passed <= 0) return;
  at_ = now;
  const double left = std::exp(-passed / kSeconds);
  requests_ *= left;
  retries_ *= left;
}

bool RetryBudget::take(Duration now) {
  decay(now);
  if (share_ <= 0 || retries_ + 1 > kFew + share_ * requests_) return false;
  retries_ += 1;
  return true;
}

}  // namespace afterimage
