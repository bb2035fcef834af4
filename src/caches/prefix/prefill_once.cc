// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/prefill_once.h"

#include <algorithm>
#include <utility>

#include "afterimage/result.h"
#include "caches/prefix/captured_kv.h"
#include "caches/prefix/prefix_explanation.h"
#include "caches/prefix/resume_point.h"
#include "foundation/platform/flight.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// Guarded by the lock of PrefillOnce. Nobody takes over: waiters of an orphaned one claim again.
struct PrefillFlight : Flight {
  PrefillFlight(const PrefillRequest& of, std::vector<TokenCount> promised)
      : request(of), snapshots(std::move(promised)) {}

  const PrefillRequest request;  // its pointers are valid while the leader lives
  const std::vector<TokenCount> snapshots;
};

namespace {

/// Leading positions that are equal in both: same token and, in a media span, same span.
TokenCount common_prefix(const Sequence& a, const Sequence& b) {
  const auto token = std::ranges::mismatch(a.tokens, b.tokens).in1;
  const TokenCount equal(static_cast<std::uint32_t>(token - a.tokens.begin()));
  const auto [in_a, in_b] = std::ranges::mismatch(a.spans, b.spans);
  TokenCount branch_point = equal;
  if (in_a != a.spans.end()) branch_point = std::min(branch_point, in_a->offset);
  if (in_b != b.spans.end()) branch_point = std::min(branch_point, in_b->offset);
  return branch_point;
}

/// Where a prompt that shares `common` tokens with the flight can resume once it has committed.
TokenCount promised_resume(const PrefillFlight& flight, const PrefillRequest& request,
                           TokenCount common) {
  const TokenCount last(static_cast<std::uint32_t>(request.prompt->tokens.size() - 1));
  const TokenCount furthest = std::min(common, last);
  if (!keeps_snapshots(*request.layout)) {
    return legal_boundary(*request.layout, request.prompt->spans, furthest);
  }
  const auto beyond = std::ranges::upper_bound(flight.snapshots, furthest);
  return beyond == flight.snapshots.begin() ? TokenCount(0) : *std::prev(beyond);
}

}  // namespace

struct PrefillOnce::State final : SingleFlight<PrefillFlight> {
  State(PrefixCache& its_cache, PrefillOnceOptions its_options)
      : options(its_options), cache(its_cache) {}

  /// The flights that a request could use.
  struct InFlight {
    std::shared_ptr<PrefillFlight> flight;  // the one with the longest promised resume point
    TokenCount promised{};
    TokenCount branch_point{};  // where the request diverges from the flight closest to it
  };
  [[nodiscard]] InFlight find_in_flight(const PrefillRequest& request) const AFI_REQUIRES(mutex);
  [[nodiscard]] Result<bool> worth_waiting(const PrefillRequest& request, TokenCount promised) const
      AFI_REQUIRES(mutex);
  Result<PrefillLeader> begin(PrefillOnce& front, const PrefillRequest& request,
                              TokenCount branch_point) AFI_REQUIRES(mutex);
  void forget(PrefillFlight& flight) override AFI_REQUIRES(mutex);

  const PrefillOnceOptions options;
  PrefixCache& cache;
  std::vector<std::shared_ptr<PrefillFlight>> flights AFI_GUARDED_BY(mutex);  // in starting order
  PrefillOnceStats stats AFI_GUARDED_BY(mutex);
};

void PrefillLeader::start_over() {
  match_.mark_reported();  // commit() reports the request
  match_ = PrefixMatch(match_.matched(), match_.facts());
  snapshots_ = snapshot_positions(*request_.layout, *request_.prompt, branch_point_, TokenCount(0));
}

Result<void> PrefillLeader::look_again() {
  match_.mark_reported();  // the next match reports the request
  AFI_TRY(match_, front_->match(request_.space, *request_.prompt, request_.facts));
  branch_point_ = std::max(branch_point_, match_.matched());
  snapshots_ =
      snapshot_positions(*request_.layout, *request_.prompt, branch_point_, match_.resume());
  return {};
}

Result<PrefixInsertion> PrefillLeader::commit(const KvSlice& kv) {
  auto inserted =
      front_->cache().insert(request_.space, *request_.layout, *request_.prompt, kv, &match_);
  finish();
  return inserted;
}

void PrefillLeader::finish() {
  if (flight_ == nullptr) return;
  {
    const MutexLock lock(front_->state_->mutex);
    front_->state_->land(*flight_);
  }
  flight_.reset();
}

Result<bool> PrefillWaiter::wait(const std::stop_token& stop) && {
  AFI_CHECK(flight_ != nullptr);
  const auto flight = std::exchange(flight_, nullptr);
  AFI_TRY(const Flight::State ended, flight->wait(front_->state_->mutex, stop));
  return ended == Flight::State::kOrphaned;
}

PrefillOnce::PrefillOnce(PrefixCache& cache, PrefillOnceOptions options)
    : state_(std::make_unique<State>(cache, options)) {
  AFI_CHECK(options.worth_waiting > TokenCount(0));
}

PrefillOnce::~PrefillOnce() {
  const MutexLock lock(state_->mutex);
  AFI_CHECK(state_->flights.empty());
}

Result<PrefillOnce::Claim> PrefillOnce::claim(const PrefillRequest& request) {
  return claim(request, /*may_wait=*/true);
}

Result<PrefillLeader> PrefillOnce::lead(const PrefillRequest& request) {
  AFI_TRY(Claim claimed, claim(request, /*may_wait=*/false));
  return std::get<PrefillLeader>(std::move(claimed));
}

Result<PrefillLeader> PrefillOnce::wait_and_lead(const PrefillRequest& request,
                                                 const std::stop_token& stop) {
  for (bool may_wait = true;;) {
    AFI_TRY(Claim claimed, claim(request, may_wait));
    if (auto* leader = std::get_if<PrefillLeader>(&claimed)) return std::move(*leader);
    AFI_TRY(may_wait, std::get<PrefillWaiter>(std::move(claimed)).wait(stop));
  }
}

// The look-up, the search for flights and the registration of this one are atomic: otherwise two
// concurrent misses would both prefill.
Result<PrefillOnce::Claim> PrefillOnce::claim(const PrefillRequest& request, bool may_wait) {
  AFI_TRY_VOID(check_sequence(*request.prompt));
  while (true) {
    std::optional<PrefillLeader> leader;
    {
      const MutexLock lock(state_->mutex);
      const State::InFlight found = state_->find_in_flight(request);
      if (may_wait) {
        AFI_TRY(const bool waits, state_->worth_waiting(request, found.promised));
        if (waits) {
          ++state_->stats.followed;
          return Claim(PrefillWaiter(*this, found.flight, found.promised));
        }
      }
      AFI_TRY(leader, state_->begin(*this, request, found.branch_point));
    }
    if (!drop_if_damaged(leader->match_)) return Claim(*std::move(leader));
  }
}

PrefillOnce::State::InFlight PrefillOnce::State::find_in_flight(
    const PrefillRequest& request) const {
  InFlight best;
  if (request.prompt->tokens.empty()) return best;
  for (const std::shared_ptr<PrefillFlight>& flight : flights) {
    if (flight->request.space != request.space) continue;
    const TokenCount common = common_prefix(*flight->request.prompt, *request.prompt);
    best.branch_point = std::max(best.branch_point, common);
    const TokenCount promised = promised_resume(*flight, request, common);
    if (promised <= best.promised) continue;
    best.promised = promised;
    best.flight = flight;
  }
  return best;
}

Result<bool> PrefillOnce::State::worth_waiting(const PrefillRequest& request,
                                               TokenCount promised) const {
  if (promised < options.worth_waiting) return false;
  // explain, not match: a waiter is counted when it comes back to lead.
  AFI_TRY(const PrefixExplanation now, cache.explain(request.space, *request.prompt));
  const TokenCount resume = now.point.length;
  if (promised < resume + options.worth_waiting) return false;
  return promised - resume >= now.length - promised;
}

Result<PrefillLeader> PrefillOnce::State::begin(PrefillOnce& front, const PrefillRequest& request,
                                                TokenCount branch_point) {
  AFI_TRY(PrefixMatch match, cache.match(request.space, *request.prompt, request.facts));
  branch_point = std::max(branch_point, match.matched());
  auto snapshots =
      snapshot_positions(*request.layout, *request.prompt, branch_point, match.resume());
  PrefillLeader::Part part;
  const TokenCount length(static_cast<std::uint32_t>(request.prompt->tokens.size()));
  if (length - match.resume() > options.worth_waiting) {
    const auto flight = std::make_shared<PrefillFlight>(request, snapshots);
    part = part_in(flight, FlightRole::kLeader);
    flights.push_back(flight);
    ++stats.led;
  }
  return PrefillLeader(front, request, std::move(match), branch_point, std::move(snapshots),
                       std::move(part));
}

void PrefillOnce::State::forget(PrefillFlight& flight) {
  if (!flight.is_led()) ++stats.left;
  std::erase_if(flights, [&](const auto& other) { return other.get() == &flight; });
}

Result<PrefixMatch> PrefillOnce::match(const NamespaceId& space, const Sequence& prompt,
                                       const RequestFacts& facts) {
  while (true) {
    AFI_TRY(PrefixMatch found, state_->cache.match(space, prompt, facts));
    if (!drop_if_damaged(found)) return found;
  }
}

bool PrefillOnce::drop_if_damaged(PrefixMatch& match) const {
  if (!state_->options.verify_hits) return false;
  const auto payloads = state_->cache.payloads(match);
  const auto damaged = std::ranges::find_if_not(payloads, &Payload::intact);
  if (damaged == payloads.end()) return false;
  state_->cache.discard_damaged(match, *damaged);
  match.mark_reported();  // the next match reports the request
  return true;
}

PrefixCache& PrefillOnce::cache() const { return state_->cache; }

PrefillOnceStats PrefillOnce::stats() const {
  const MutexLock lock(state_->mutex);
  return state_->stats;
}

}  // namespace afterimage
