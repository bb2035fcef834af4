// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// One call for all gateways that share answers: the leader of a response takes the lease of its
// question, or waits until the gateway that holds it has stored the answer.
#include <algorithm>
#include <exception>
#include <utility>

#include "gateway/proxy/gateway_request.h"

namespace afterimage {
namespace {

/// Until the next look, each time twice as long; and how often it doubles.
constexpr Duration kFirstWait = std::chrono::milliseconds(10);
constexpr std::uint32_t kDoublings = 4;

/// Gives its lease back on a thread that may wait for servers.
class HeldLease final : public Lease {
 public:
  explicit HeldLease(std::shared_ptr<Lease> lease) : lease_(std::move(lease)) {}

 private:
  std::shared_ptr<Lease> lease_;
};

}  // namespace

/// Not for timing-protected tenants, and not where the answer may not be shared or may not come from
/// another client: an answer that was waited for is older than the request.
bool GatewayRequest::uses_leases() const {
  const AnswerArchive* const archive = gateway_.parts().archive;
  // A batch is stored as its inputs: nobody would find it under the lease of the whole.
  return archive != nullptr && archive->has_leases() && !terms_->draws && asked_.inputs.empty() &&
         config_->settings.answers.coalesce_timeout > Duration(0) && !asked_.directives.no_cache &&
         !asked_.directives.no_store && terms_->rules.max_age != Duration(0) && !hides_hits();
}

/// The leader looks the answer up in the round trip that claims its lease, for all that ask the same.
/// Not if an answer that it finds may not be what this request gets.
bool GatewayRequest::looks_up_with_lease() const {
  return uses_leases() && !asked_.directives.only_if_cached && !may_use_similar() &&
         !found_by_leader_ && restarts_ < kMaxRestarts;
}

GatewayRequest::Next GatewayRequest::on_leasing() {
  lease_loop_ = LeaseLoop(LeaseLoop::Looks::kWithClaims);
  if (post_claim()) return std::nullopt;
  gateway_.counts().leased(LeaseOutcome::kUnavailable);
  return RequestStage::kWaitingForBackend;
}

bool GatewayRequest::post_claim() {
  return gateway_.disk_workers().post([self = shared_from_this()] { self->claim_lease(); });
}

void GatewayRequest::claim_lease() {
  if (!response().wanted()) {
    abandon_response();
    decision_.status = 499;
    decision_.reason = Reason::kClientLeft;
    return resume(RequestStage::kDone);
  }
  AnswerArchive& archive = *gateway_.parts().archive;
  // Looser forms of the question are looked up once.
  const bool is_first_look = !looked_up_archive_ && lease_loop_.waits() == 0;
  const bool has_just_looked = looked_up_archive_ && lease_loop_.waits() == 0;
  LookupRules rules = terms_->rules;
  if (!is_first_look) rules.serve = MatchLevel::kExact;
  AnswerArchive::ReadLease before;
  LeaseStatus status = LeaseStatus::kUnavailable;
  const auto claim = [&] {
    before = archive.read_lease();
    auto claimed = archive.claim(*asked_.question, form_of(*asked_.api), rules.serve, before);
    status = claimed.status;
    if (claimed.lease != nullptr) {
      claimed.lease = std::make_unique<HeldLease>(gateway_.hold(std::move(claimed.lease)));
    }
    return claimed;
  };
  const auto look = [&]() -> Result<LeaseLoop::Found> {
    if (status == LeaseStatus::kUnavailable && has_just_looked) return LeaseLoop::Found::kNothing;
    auto found = archive.restore_claimed(*asked_.question, rules, quota_of(asked_.tenant), before);
    if (!found.has_value()) return LeaseLoop::Found::kNothing;
    const MatchStep step = shown(found->steps.back());
    if (!take_found(*found)) return LeaseLoop::Found::kNothing;
    decision_.match_levels.push_back(step);
    return LeaseLoop::Found::kAll;
  };
  // Those that wait for the response get it without a lease, whatever is thrown.
  const auto step = [&] {
    try {
      return lease_loop_.step(claim, look).value_or(LeaseLoop::Next::kCompute);
    } catch (const std::exception& error) {
      gateway_.parts().log.error("exception",
                                 {{"request_id", decision_.request_id}, {"why", error.what()}});
      return LeaseLoop::Next::kCompute;
    }
  };
  switch (step()) {
    case LeaseLoop::Next::kUse:
      // Unless it was there at the first look.
      if (!is_first_look) gateway_.counts().leased(LeaseOutcome::kElsewhere);
      answered_elsewhere_ = lease_loop_.waits() > 0;
      abandon_response();
      return resume(RequestStage::kResponding);
    case LeaseLoop::Next::kCompute:
      lease_ = lease_loop_.take_lease();
      gateway_.counts().leased(lease_ != nullptr ? LeaseOutcome::kAcquired
                                                 : LeaseOutcome::kUnavailable);
      return resume(RequestStage::kWaitingForBackend);
    case LeaseLoop::Next::kWait:
      return wait_for_lease_holder();
  }
}

void GatewayRequest::wait_for_lease_holder() {
  const Duration until = arrived_ + config_->settings.answers.coalesce_timeout;
  const Duration left = until - gateway_.parts().clock.now();
  if (left <= Duration(0)) {
    decision_.why = "another gateway is asking the same, and takes too long";
    gateway_.counts().leased(LeaseOutcome::kExpired);
    return resume(RequestStage::kWaitingForBackend);
  }
  const Duration wait = kFirstWait * (1U << std::min(lease_loop_.waits(), kDoublings));
  lease_loop_.note_wait();
  IoThreads& threads = gateway_.parts().threads;
  threads.post_after(threads.here_or_next(), std::min(wait, left), [self = shared_from_this()] {
    if (self->post_claim()) return;
    self->gateway_.counts().leased(LeaseOutcome::kUnavailable);
    self->resume(RequestStage::kWaitingForBackend);
  });
}

/// In this order: a request that joins too late finds the answer in memory. Each of the others
/// looks it up by its own rules: what serves the leader may be too old for one that joined it.
void GatewayRequest::abandon_response() {
  const std::shared_ptr<SharedResponse> abandoned = response().shared_from_this();
  unsubscribe();
  gateway_.responses().remove(coalescing_key(asked_, config_->settings.answers), abandoned.get());
  abandoned->abandon(answered_elsewhere_);
}

}  // namespace afterimage
