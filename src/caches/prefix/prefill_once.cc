// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/prefill_once.h"

#include <algorithm>
#include <utility>

#include "afterimage/check.h"
#include "afterimage/resume_point.h"
#include "caches/prefix/captured_kv.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

enum class PrefillLanding : unsigned char { kInFlight, kLeft, kOver };

/// Guarded by the front's lock.
struct PrefillFlight {
  const PrefillRequest asked;  // only as long as the turn lives
  const std::vector<TokenCount> snapshots;
  PrefillLanding landing = PrefillLanding::kInFlight;
  Condition landed;
};

namespace {

/// Leading positions that are the same in both: the token is and, in a media span, the span is.
TokenCount common_prefix(const Sequence& a, const Sequence& b) {
  const auto token = std::ranges::mismatch(a.tokens, b.tokens).in1;
  const TokenCount equal(static_cast<std::uint32_t>(token - a.tokens.begin()));
  const auto [mine, theirs] = std::ranges::mismatch(a.spans, b.spans);
  TokenCount parted = equal;
  if (mine != a.spans.end()) parted = std::min(parted, mine->offset);
  if (theirs != b.spans.end()) parted = std::min(parted, theirs->offset);
  return parted;
}

/// Where a prompt that shares `common` tokens with the flight can resume once it has landed.
TokenCount promise_of(const PrefillFlight& flight, const PrefillRequest& asked, TokenCount common) {
  const TokenCount last(static_cast<std::uint32_t>(asked.prompt->tokens.size() - 1));
  const TokenCount furthest = std::min(common, last);
  if (!keeps_snapshots(*asked.layout)) {
    return legal_boundary(*asked.layout, asked.prompt->spans, furthest);
  }
  const auto beyond = std::ranges::upper_bound(flight.snapshots, furthest);
  return beyond == flight.snapshots.begin() ? TokenCount(0) : *std::prev(beyond);
}

}  // namespace

struct PrefillOnce::State {
  State(PrefixCache& its_cache, PrefillOnceOptions its_options)
      : options(its_options), cache(its_cache) {}

  /// What is being prefilled that a request could use.
  struct Company {
    std::shared_ptr<PrefillFlight> flight;  // the one that promises most
    TokenCount promised{};
    TokenCount parted{};  // where the request leaves the one it shares most with
  };
  [[nodiscard]] Company company(const PrefillRequest& asked) const AFI_REQUIRES(mutex);
  [[nodiscard]] Result<bool> worth_waiting(const PrefillRequest& asked, TokenCount promised) const
      AFI_REQUIRES(mutex);
  Result<PrefillLeader> begin(PrefillOnce& front, const PrefillRequest& asked, TokenCount parted)
      AFI_REQUIRES(mutex);

  mutable Mutex mutex;
  const PrefillOnceOptions options;
  PrefixCache& cache AFI_GUARDED_BY(mutex);
  std::uint64_t held AFI_GUARDED_BY(mutex) = 0;
  std::vector<std::shared_ptr<PrefillFlight>> flights AFI_GUARDED_BY(mutex);  // as they began
  PrefillOnceStats stats AFI_GUARDED_BY(mutex);
  bool blocked AFI_GUARDED_BY(mutex) = false;
};

PrefillLeader::PrefillLeader(PrefillOnce& front, const PrefillRequest& asked, PrefixMatch match,
                             TokenCount parted, std::vector<TokenCount> snapshots,
                             std::shared_ptr<PrefillFlight> flight)
    : front_(&front),
      asked_(asked),
      match_(std::move(match)),
      parted_(parted),
      snapshots_(std::move(snapshots)),
      flight_(std::move(flight)) {}

PrefillLeader::PrefillLeader(PrefillLeader&& other) noexcept = default;

PrefillLeader& PrefillLeader::operator=(PrefillLeader other) noexcept {
  std::swap(front_, other.front_);
  std::swap(asked_, other.asked_);
  std::swap(match_, other.match_);
  std::swap(parted_, other.parted_);
  std::swap(snapshots_, other.snapshots_);
  std::swap(flight_, other.flight_);
  return *this;
}

PrefillLeader::~PrefillLeader() { land(PrefillLanding::kLeft); }

void PrefillLeader::land(PrefillLanding landing) {
  if (flight_ != nullptr) front_->land(*std::exchange(flight_, nullptr), landing);
}

void PrefillLeader::start_over() {
  match_.mark_told();  // with what will be committed
  match_ = PrefixMatch(match_.matched(), match_.facts());
  snapshots_ = snapshot_positions(*asked_.layout, *asked_.prompt, parted_, TokenCount(0));
}

Result<void> PrefillLeader::look_again() {
  match_.mark_told();  // the request looks again
  AFI_TRY(match_, front_->match(asked_.space, *asked_.prompt, asked_.facts));
  parted_ = std::max(parted_, match_.matched());
  snapshots_ = snapshot_positions(*asked_.layout, *asked_.prompt, parted_, match_.resume());
  return {};
}

Result<PrefixInsertion> PrefillLeader::commit(const CapturedKv& kv) {
  auto inserted = front_->insert(asked_.space, *asked_.layout, *asked_.prompt, kv, &match_);
  land(PrefillLanding::kOver);
  return inserted;
}

void PrefillLeader::fail() { land(PrefillLanding::kOver); }

Result<bool> PrefillWaiter::wait(const std::stop_token& stop) && {
  AFI_CHECK(flight_ != nullptr);
  return front_->wait(*std::exchange(flight_, nullptr), stop);
}

PrefillOnce::PrefillOnce(PrefixCache& cache, PrefillOnceOptions options)
    : state_(std::make_unique<State>(cache, options)) {
  AFI_CHECK(options.worth_waiting > TokenCount(0));
}

PrefillOnce::~PrefillOnce() {
  const MutexLock lock(state_->mutex);
  AFI_CHECK(state_->held == 0 && state_->flights.empty());
}

Result<PrefillOnce::Claim> PrefillOnce::claim(const PrefillRequest& asked) {
  return claim(asked, /*may_wait=*/true);
}

Result<PrefillLeader> PrefillOnce::lead(const PrefillRequest& asked) {
  AFI_TRY(Claim claimed, claim(asked, /*may_wait=*/false));
  return std::get<PrefillLeader>(std::move(claimed));
}

Result<PrefillLeader> PrefillOnce::wait_and_lead(const PrefillRequest& asked,
                                                 const std::stop_token& stop) {
  for (bool may_wait = true;;) {
    AFI_TRY(Claim claimed, claim(asked, may_wait));
    if (auto* turn = std::get_if<PrefillLeader>(&claimed)) return std::move(*turn);
    AFI_TRY(may_wait, std::get<PrefillWaiter>(std::move(claimed)).wait(stop));
  }
}

// Looking up, looking round and taking the turn are one step: otherwise two who find nothing at the
// same time would both prefill.
Result<PrefillOnce::Claim> PrefillOnce::claim(const PrefillRequest& asked, bool may_wait) {
  AFI_TRY_VOID(check_sequence(*asked.prompt));
  while (true) {
    std::optional<PrefillLeader> turn;
    std::vector<const Payload*> payloads;
    {
      const MutexLock lock(state_->mutex);
      const State::Company found = state_->company(asked);
      if (may_wait) {
        AFI_TRY(const bool waits, state_->worth_waiting(asked, found.promised));
        if (waits) {
          ++state_->stats.followed;
          return Claim(PrefillWaiter(*this, found.flight, found.promised));
        }
      }
      AFI_TRY(turn, state_->begin(*this, asked, found.parted));
      if (state_->options.verify_hits) payloads = state_->cache.payloads(turn->match_);
    }
    if (!drop_if_damaged(turn->match_, payloads)) return Claim(*std::move(turn));
  }
}

PrefillOnce::State::Company PrefillOnce::State::company(const PrefillRequest& asked) const {
  Company company;
  if (asked.prompt->tokens.empty()) return company;
  for (const std::shared_ptr<PrefillFlight>& flight : flights) {
    if (flight->asked.space != asked.space) continue;
    const TokenCount common = common_prefix(*flight->asked.prompt, *asked.prompt);
    company.parted = std::max(company.parted, common);
    const TokenCount promised = promise_of(*flight, asked, common);
    if (promised <= company.promised) continue;
    company.promised = promised;
    company.flight = flight;
  }
  return company;
}

Result<bool> PrefillOnce::State::worth_waiting(const PrefillRequest& asked,
                                               TokenCount promised) const {
  if (promised < options.worth_waiting) return false;
  // Not a match: who waits is counted when he comes back.
  AFI_TRY(const PrefixExplanation now, cache.explain(asked.space, *asked.prompt));
  const TokenCount resume = now.point.length;
  if (promised < resume + options.worth_waiting) return false;
  return promised - resume >= now.length - promised;
}

Result<PrefillLeader> PrefillOnce::State::begin(PrefillOnce& front, const PrefillRequest& asked,
                                                TokenCount parted) {
  AFI_TRY(PrefixMatch match, cache.match(asked.space, *asked.prompt, asked.facts));
  if (match.holds()) {
    match = PrefixMatch::handed_over(std::move(match), front);
    ++held;
  }
  parted = std::max(parted, match.matched());
  auto snapshots = snapshot_positions(*asked.layout, *asked.prompt, parted, match.resume());
  std::shared_ptr<PrefillFlight> flight;
  const TokenCount length(static_cast<std::uint32_t>(asked.prompt->tokens.size()));
  if (length - match.resume() > options.worth_waiting) {
    flight = std::make_shared<PrefillFlight>(asked, snapshots);
    flights.push_back(flight);
    ++stats.led;
  }
  return PrefillLeader(front, asked, std::move(match), parted, std::move(snapshots),
                       std::move(flight));
}

void PrefillOnce::land(PrefillFlight& flight, PrefillLanding landing) {
  const MutexLock lock(state_->mutex);
  if (landing == PrefillLanding::kLeft) ++state_->stats.left;
  std::erase_if(state_->flights, [&](const auto& other) { return other.get() == &flight; });
  flight.landing = landing;
  flight.landed.notify_all();
}

Result<bool> PrefillOnce::wait(PrefillFlight& flight, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [&] {
    const MutexLock lock(state_->mutex);
    flight.landed.notify_all();
  });
  const MutexLock lock(state_->mutex);
  while (flight.landing == PrefillLanding::kInFlight) {
    if (stop.stop_requested()) {
      return afterimage::fail(ErrorCode::kCancelled, "the request was cancelled while it waited");
    }
    flight.landed.wait(state_->mutex);
  }
  return flight.landing == PrefillLanding::kLeft;
}

Result<PrefixMatch> PrefillOnce::match(const NamespaceId& space, const Sequence& prompt,
                                       const RequestFacts& facts) {
  while (true) {
    std::optional<PrefixMatch> found;
    std::vector<const Payload*> payloads;
    {
      const MutexLock lock(state_->mutex);
      AFI_TRY(PrefixMatch match, state_->cache.match(space, prompt, facts));
      if (!match.holds()) return match;
      if (state_->options.verify_hits) payloads = state_->cache.payloads(match);
      found = PrefixMatch::handed_over(std::move(match), *this);
      ++state_->held;
    }
    if (!drop_if_damaged(*found, payloads)) return *std::move(found);
  }
}

bool PrefillOnce::drop_if_damaged(PrefixMatch& match, const std::vector<const Payload*>& payloads) {
  const auto damaged = std::ranges::find_if_not(payloads, &Payload::intact);
  if (damaged == payloads.end()) return false;
  const MutexLock lock(state_->mutex);
  state_->cache.discard_damaged(match, *damaged);
  match.mark_told();  // the request looks again
  return true;
}

CachedKv PrefillOnce::kv(const PrefixMatch& match) const {
  const MutexLock lock(state_->mutex);
  return state_->cache.kv(match);
}

Result<PrefixInsertion> PrefillOnce::insert(const NamespaceId& space, const KvLayout& layout,
                                            const Sequence& sequence, const CapturedKv& kv,
                                            PrefixMatch* from) {
  std::optional<PrefixCache::Draft> draft;
  {
    const MutexLock lock(state_->mutex);
    if (state_->blocked) {
      ++state_->stats.blocked;
      return afterimage::fail(ErrorCode::kUnavailable, "admission is blocked: memory is short");
    }
    AFI_TRY(draft, state_->cache.draft(space, layout, sequence, kv));
  }
  if (state_->options.shared != nullptr) state_->options.shared->make_room(draft->bytes());
  Result<void> ready;
  {
    const MutexLock lock(state_->mutex);
    ready = state_->cache.make_room(*draft);
  }
  if (ready.has_value()) ready = PrefixCache::fill(*draft, layout, kv);
  const MutexLock lock(state_->mutex);
  if (!ready.has_value()) {
    draft.reset();  // here, because it holds a prefix
    return std::unexpected(ready.error());
  }
  PrefixCache::Draft full = *std::move(draft);
  draft.reset();
  return state_->cache.commit(std::move(full), space, layout, sequence, from);
}

Result<PrefixExplanation> PrefillOnce::explain(const NamespaceId& space,
                                               const Sequence& prompt) const {
  const MutexLock lock(state_->mutex);
  return state_->cache.explain(space, prompt);
}

bool PrefillOnce::erase(const NamespaceId& space) {
  const MutexLock lock(state_->mutex);
  return state_->cache.erase(space);
}

void PrefillOnce::clear() {
  const MutexLock lock(state_->mutex);
  state_->cache.clear();
}

std::optional<NextToLeave> PrefillOnce::eviction_candidate() {
  const MutexLock lock(state_->mutex);
  return state_->cache.eviction_candidate();
}

Bytes PrefillOnce::evict_bytes(Bytes wanted) {
  const MutexLock lock(state_->mutex);
  return state_->cache.evict_bytes(wanted);
}

Bytes PrefillOnce::trim_to_budget() {
  const MutexLock lock(state_->mutex);
  return state_->cache.trim_to_budget();
}

void PrefillOnce::block_admission(bool blocked) {
  const MutexLock lock(state_->mutex);
  state_->blocked = blocked;
}

PrefixCacheStats PrefillOnce::cache_stats() const {
  const MutexLock lock(state_->mutex);
  return state_->cache.stats();
}

PrefillOnceStats PrefillOnce::stats() const {
  const MutexLock lock(state_->mutex);
  return state_->stats;
}

void PrefillOnce::check_invariants() const {
  const MutexLock lock(state_->mutex);
  state_->cache.check_invariants();
}

void PrefillOnce::let_go(const PrefixHold& hold, const RequestFacts* request) {
  const MutexLock lock(state_->mutex);
  --state_->held;
  state_->cache.let_go(hold, request);
}

}  // namespace afterimage
