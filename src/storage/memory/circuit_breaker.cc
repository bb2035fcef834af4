// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/circuit_breaker.h"

namespace afterimage {

bool CircuitBreaker::try_acquire(Duration now) {
  if (open_) {
    if (now < until_) return false;
    probing_ = true;
    until_ = now + options_.open_duration;  // other calls wait for the result of this probe
    return true;
  }
  if (!ramping_) return true;
  const Duration since = now - recovered_;
  if (since >= options_.ramp_tenth + options_.ramp_third) {
    ramping_ = false;
    return true;
  }
  return ramp_calls_++ % (since < options_.ramp_tenth ? 10 : 3) == 0;
}

void CircuitBreaker::succeeded(Duration now) {
  if (options_.success_resets) failures_.clear();
  // Unless any success closes it, a late success of a call from before it opened proves nothing.
  if (!open_ || (!probing_ && !options_.success_resets)) return;
  open_ = false;
  probing_ = false;
  failures_.clear();
  ramping_ = options_.ramp_tenth + options_.ramp_third > Duration(0);
  recovered_ = now;
  ramp_calls_ = 0;
}

void CircuitBreaker::failed(Duration now) {
  failures_.push_back(now);
  while (now - failures_.front() > options_.window ||
         failures_.size() > options_.failure_threshold) {
    failures_.pop_front();
  }
  // A failure during the ramp opens it at once: the server has not recovered.
  if (!open_ && !ramping_ && failures_.size() < options_.failure_threshold) return;
  if (!open_) ++times_opened_;
  open_ = true;
  probing_ = false;
  ramping_ = false;
  until_ = now + options_.open_duration;
}

}  // namespace afterimage
