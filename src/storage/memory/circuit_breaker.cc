// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/circuit_breaker.h"

namespace afterimage {

bool CircuitBreaker::lets_through(Duration now) {
  if (open_) {
    if (now < until_) return false;
    probing_ = true;
    until_ = now + options_.open_duration;  // other calls wait for this probe's result
    return true;
  }
  if (!returning_) return true;
  const Duration since = now - returned_;
  if (since >= options_.few + options_.some) {
    returning_ = false;
    return true;
  }
  return asked_++ % (since < options_.few ? 10 : 3) == 0;
}

void CircuitBreaker::succeeded(Duration now) {
  if (!open_ || !probing_) return;
  open_ = false;
  probing_ = false;
  failures_.clear();
  returning_ = true;
  returned_ = now;
  asked_ = 0;
}

void CircuitBreaker::failed(Duration now) {
  failures_.push_back(now);
  while (failures_.front() + options_.within < now || failures_.size() > options_.failures) {
    failures_.pop_front();
  }
  // A failure during the ramp reopens the breaker at once.
  if (!open_ && !returning_ && failures_.size() < options_.failures) return;
  if (!open_) ++times_opened_;
  open_ = true;
  probing_ = false;
  returning_ = false;
  until_ = now + options_.open_duration;
}

}  // namespace afterimage
