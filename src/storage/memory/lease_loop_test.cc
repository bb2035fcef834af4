// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/lease_loop.h"

#include <gtest/gtest.h>

#include <vector>

namespace afterimage {
namespace {

using Next = LeaseLoop::Next;
using Found = LeaseLoop::Found;

class NoLease final : public Lease {};

/// Answers claims and looks from a script, and records the calls in order.
struct Script final : LeaseService {
  using LeaseService::claim;
  Claim claim(const TierKey& /*name*/, const TierKey& /*entry*/) override { return claim_next(); }
  bool wait(std::uint32_t attempt, const std::stop_token& /*stop*/) override {
    calls += 'w';
    if (on_wait) on_wait();
    return attempt < max_waits;
  }
  Claim claim_next() {
    calls += 'c';
    const LeaseStatus status = claims.empty() ? LeaseStatus::kUnavailable : claims.front();
    if (!claims.empty()) claims.erase(claims.begin());
    return {.status = status,
            .lease = status == LeaseStatus::kAcquired ? std::make_unique<NoLease>() : nullptr};
  }
  Result<Found> look_next() {
    calls += 'l';
    if (looks.empty()) return Found::kNothing;
    const Found found = looks.front();
    looks.erase(looks.begin());
    return found;
  }
  Result<Next> step() {
    return loop.step([this] { return claim_next(); }, [this] { return look_next(); });
  }
  Result<Next> run(const std::stop_token& stop = {}, const std::function<bool()>& may_wait = {}) {
    return loop.run(
        *this, [this] { return claim_next(); }, [this] { return look_next(); }, stop, may_wait);
  }

  LeaseLoop loop;
  std::vector<LeaseStatus> claims;
  std::vector<Found> looks;
  std::uint32_t max_waits = 10;
  std::function<void()> on_wait;
  std::string calls;
};

TEST(LeaseLoop, LooksAgainAfterAClaimAndComputesUnderTheLease) {
  Script s;
  s.claims = {LeaseStatus::kAcquired};
  EXPECT_EQ(s.step(), Next::kCompute);
  EXPECT_EQ(s.calls, "cl");
  EXPECT_NE(s.loop.take_lease(), nullptr);
}

TEST(LeaseLoop, UsesWhatTheLastHolderStoredAndKeepsNoLease) {
  Script s;
  s.claims = {LeaseStatus::kAcquired};
  s.looks = {Found::kAll};
  EXPECT_EQ(s.step(), Next::kUse);
  EXPECT_EQ(s.loop.take_lease(), nullptr);
}

TEST(LeaseLoop, ComputesWithoutALeaseIfNobodyCanBeAsked) {
  Script s;
  EXPECT_EQ(s.step(), Next::kCompute);
  EXPECT_EQ(s.calls, "c");
  EXPECT_EQ(s.loop.take_lease(), nullptr);
}

TEST(LeaseLoop, ClaimsTheLeaseOfTheRestIfSomeWasFound) {
  Script s;
  s.claims = {LeaseStatus::kAcquired, LeaseStatus::kAcquired};
  s.looks = {Found::kSome, Found::kNothing};
  EXPECT_EQ(s.step(), Next::kCompute);
  EXPECT_EQ(s.calls, "clcl");
}

TEST(LeaseLoop, WaitsForTheHolderAndLooksBeforeItClaimsAgain) {
  Script s;
  s.claims = {LeaseStatus::kElsewhere, LeaseStatus::kElsewhere};
  s.looks = {Found::kNothing, Found::kAll};
  EXPECT_EQ(s.run(), Next::kUse);
  EXPECT_EQ(s.calls, "cwlcwl");
}

TEST(LeaseLoop, RunContinuesAStepThatSaidWait) {
  Script s;
  s.claims = {LeaseStatus::kElsewhere, LeaseStatus::kAcquired};
  EXPECT_EQ(s.step(), Next::kWait);
  EXPECT_EQ(s.run(), Next::kCompute);
  EXPECT_EQ(s.calls, "cwlcl");
}

TEST(LeaseLoop, ComputesWithoutALeaseAfterTheLongestWait) {
  Script by_service;
  by_service.claims.assign(20, LeaseStatus::kElsewhere);
  by_service.max_waits = 2;
  EXPECT_EQ(by_service.run(), Next::kCompute);
  EXPECT_EQ(by_service.calls, "cwlcwlcw");

  Script by_caller;
  by_caller.claims.assign(20, LeaseStatus::kElsewhere);
  EXPECT_EQ(by_caller.run({}, [] { return false; }), Next::kCompute);
  EXPECT_EQ(by_caller.calls, "c");
  EXPECT_EQ(by_caller.loop.take_lease(), nullptr);
}

TEST(LeaseLoop, LooksAfterEachClaimOnlyIfTheClaimsLookTheEntriesUp) {
  const auto with_claims = [](std::vector<LeaseStatus> claims, std::vector<Found> looks) {
    Script s;
    s.loop = LeaseLoop(LeaseLoop::Looks::kWithClaims);
    s.claims = std::move(claims);
    s.looks = std::move(looks);
    EXPECT_TRUE(s.run().has_value());
    return s.calls;
  };
  EXPECT_EQ(with_claims({LeaseStatus::kAcquired}, {}), "cl");
  EXPECT_EQ(with_claims({LeaseStatus::kElsewhere}, {Found::kAll}), "cl") << "it is there already";
  EXPECT_EQ(with_claims({LeaseStatus::kElsewhere, LeaseStatus::kElsewhere},
                        {Found::kNothing, Found::kAll}),
            "clwcl");
  EXPECT_EQ(with_claims({LeaseStatus::kUnavailable}, {Found::kAll}), "cl")
      << "nobody has looked before";
  EXPECT_EQ(with_claims({LeaseStatus::kAcquired, LeaseStatus::kAcquired},
                        {Found::kSome, Found::kNothing}),
            "clcl");
}

TEST(LeaseLoop, EndsWithTheRequestThatIsCancelled) {
  Script s;
  s.claims.assign(20, LeaseStatus::kElsewhere);
  std::stop_source stop;
  s.on_wait = [&] { stop.request_stop(); };
  EXPECT_EQ(s.run(stop.get_token()).error().code, ErrorCode::kCancelled);
  EXPECT_EQ(s.calls, "cw");
}

TEST(LeaseLoop, AFailedLookIsTheError) {
  LeaseLoop loop;
  const auto next = loop.step(
      [] { return LeaseService::Claim{.status = LeaseStatus::kAcquired, .lease = nullptr}; },
      []() -> Result<Found> { return fail(ErrorCode::kCorruption, "x"); });
  EXPECT_EQ(next.error().code, ErrorCode::kCorruption);
}

}  // namespace
}  // namespace afterimage
