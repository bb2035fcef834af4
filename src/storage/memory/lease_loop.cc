// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/lease_loop.h"

#include <utility>

namespace afterimage {

Result<LeaseLoop::Next> LeaseLoop::step(const Claim& claim, const Look& look) {
  last_ = Next::kUse;
  const bool looks_with_claims = looks_ == Looks::kWithClaims;
  if (waits_ > 0 && !looks_with_claims) {
    AFI_TRY(const Found found, look());
    if (found == Found::kAll) return last_;
  }
  for (;;) {
    LeaseService::Claim claimed = claim();
    Found found = Found::kNothing;
    if (looks_with_claims || claimed.status == LeaseStatus::kAcquired) {
      AFI_TRY(found, look());
    }
    if (found == Found::kAll) return last_;
    if (claimed.status == LeaseStatus::kElsewhere) return last_ = Next::kWait;
    if (claimed.status == LeaseStatus::kUnavailable) return last_ = Next::kCompute;
    if (found == Found::kNothing) {
      lease_ = std::move(claimed.lease);
      return last_ = Next::kCompute;
    }
  }
}

Result<LeaseLoop::Next> LeaseLoop::run(LeaseService& leases, const Claim& claim, const Look& look,
                                       const std::stop_token& stop,
                                       const std::function<bool()>& may_wait) {
  Next next = last_;
  if (next != Next::kWait) {
    AFI_TRY(next, step(claim, look));
  }
  while (next == Next::kWait) {
    const bool waited = (!may_wait || may_wait()) && leases.wait(waits_, stop);
    ++waits_;
    if (stop.stop_requested()) {
      return fail(ErrorCode::kCancelled, "the request was cancelled while it waited");
    }
    if (!waited) return last_ = Next::kCompute;
    AFI_TRY(next, step(claim, look));
  }
  return next;
}

}  // namespace afterimage
