// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/hint_trust.h"

#include <gtest/gtest.h>

#include <cmath>

#include "foundation/platform/random.h"

namespace afterimage {
namespace {

constexpr EntryLabel kOwner{.bits = 7};
constexpr ContinuationHint kGoesOn = ContinuationHint::kGoesOn;
constexpr ContinuationHint kEnds = ContinuationHint::kEnds;
constexpr double kEven = 0.4;  // a probability in the range of those below a half

/// Requests of one owner, one a second. Each continues after `gap` seconds, or never.
struct Client {
  HintTrust& trust;
  EntryLabel owner = kOwner;
  double now = 0;
  double gap = 10;

  void ask(ContinuationHint hint, bool continues, double probability = kEven) {
    const auto bet = trust.open(owner, hint, probability, now);
    now += gap;
    static_cast<void>(trust.open(owner, ContinuationHint::kNone, probability, now));
    if (continues) trust.continues(bet);
    now += 1;
  }
  /// `times` requests, 40 % of which continue; hints are wrong in the given share.
  void ask(Rng& rng, int times, double wrong, double probability = kEven) {
    for (int i = 0; i < times; ++i) {
      const bool continues = rng.chance(0.4);
      ask(continues != rng.chance(wrong) ? kGoesOn : kEnds, continues, probability);
    }
    now += HintTrust::kPatience;
    static_cast<void>(trust.open(owner, ContinuationHint::kNone, probability, now));
  }
};

double ratio(const HintTrust& trust, ContinuationHint hint, double probability = kEven) {
  return std::exp(trust.evidence(kOwner, hint, probability) / 4.0);
}

TEST(HintTrust, LearnsTheLikelihoodRatioOfHints) {
  const struct {
    const char* name;
    double wrong;
    double goes_on;  // P(goes_on | continues) ÷ P(goes_on | ends)
  } kCases[] = {{"one in ten wrong", 0.1, 9},
                {"three in ten wrong", 0.3, 7.0 / 3},
                {"random", 0.5, 1},
                {"nine in ten wrong", 0.9, 1.0 / 9}};
  for (const auto& c : kCases) {
    HintTrust trust;
    Rng rng(1);
    Client{trust}.ask(rng, 3'000, c.wrong);
    EXPECT_NEAR(std::log(ratio(trust, kGoesOn)), std::log(c.goes_on), 0.3) << c.name;
    EXPECT_NEAR(std::log(ratio(trust, kEnds)), -std::log(c.goes_on), 0.3) << c.name;
  }
}

TEST(HintTrust, BelievesFirstHintsAndNoHintSaysNothing) {
  const HintTrust trust;
  EXPECT_NEAR(ratio(trust, kGoesOn), 9, 1.5);
  EXPECT_NEAR(ratio(trust, kEnds), 1 / 9.0, 0.02);
  EXPECT_EQ(trust.evidence(kOwner, ContinuationHint::kNone, kEven), 0);
}

TEST(HintTrust, OneThatAlwaysSaysTheSameIsSoonIgnored) {
  HintTrust trust;
  Client client{trust};
  Rng rng(1);
  for (int i = 0; i < 300; ++i) client.ask(kGoesOn, rng.chance(0.4));
  EXPECT_LT(ratio(trust, kGoesOn), 1.4);
}

TEST(HintTrust, TrustFollowsAnOwnerThatChanges) {
  HintTrust trust;
  Client client{trust};
  Rng rng(1);
  client.ask(rng, 10'000, 0.05);
  EXPECT_GT(ratio(trust, kGoesOn), 9);
  client.ask(rng, 10'000, 0.5);
  EXPECT_LT(ratio(trust, kGoesOn), 1.8);
}

TEST(HintTrust, OneOwnersLiesChangeNoOtherOwnersRatios) {
  HintTrust trust;
  Rng rng(1);
  Client{trust}.ask(rng, 2'000, 0.1);
  const int before = trust.evidence(kOwner, kEnds, kEven);
  Client{trust, EntryLabel{.bits = 8}, 1e6}.ask(rng, 2'000, 1);
  EXPECT_EQ(trust.evidence(kOwner, kEnds, kEven), before);
  EXPECT_GT(trust.evidence(EntryLabel{.bits = 8}, kEnds, kEven), 0);
}

// The hint says which of two kinds of conversations this is, and the model knows that already.
TEST(HintTrust, AHintThatRepeatsWhatIsKnownCountsForNothing) {
  HintTrust trust;
  Client client{trust};
  Rng rng(1);
  for (int i = 0; i < 2'000; ++i) {
    const bool likely = rng.chance(0.5);
    client.ask(likely ? kGoesOn : kEnds, rng.chance(likely ? 0.95 : 0.3), likely ? 0.95 : 0.3);
  }
  EXPECT_NEAR(ratio(trust, kEnds, 0.3), 1, 0.3);
  EXPECT_NEAR(ratio(trust, kGoesOn, 0.95), 1, 0.3);
}

// Their last entries are partly filled and all others shared: they are said to go on, and nothing of
// their own is ever used again.
TEST(HintTrust, RequestsThatNothingContinuesChangeNoOtherRatio) {
  HintTrust trust;
  Client client{trust};
  Rng rng(1);
  for (int i = 0; i < 3'000; ++i) {
    const bool goes_on = rng.chance(0.4);
    client.ask(goes_on != rng.chance(0.1) ? kGoesOn : kEnds, goes_on, 0.4);
    client.ask(kGoesOn, false, 0.02);
  }
  EXPECT_NEAR(std::log(ratio(trust, kGoesOn, 0.4)), std::log(9), 0.3);
  EXPECT_NEAR(std::log(ratio(trust, kEnds, 0.4)), -std::log(9), 0.3);
}

// All hints are right, and conversations continue after ten minutes: until then they count as ended.
TEST(HintTrust, AConversationThatContinuesLateDidNotEnd) {
  HintTrust trust;
  Client late{.trust = trust, .gap = 600};
  for (int i = 0; i < 200; ++i) {
    late.ask(kGoesOn, true);
    late.ask(kEnds, false);
  }
  EXPECT_GT(ratio(trust, kGoesOn), 30);
}

// No outcome is known yet. 40 % continue: honest hints are "goes on" nearly as often, and a client that
// says it always says nothing.
TEST(HintTrust, BeforeOutcomesHintsMustFitTheProbability) {
  HintTrust honest;
  HintTrust always;
  for (int i = 0; i < 500; ++i) {
    static_cast<void>(honest.open(kOwner, i % 50 < 21 ? kGoesOn : kEnds, kEven, 1));
    static_cast<void>(always.open(kOwner, kGoesOn, kEven, 1));
  }
  EXPECT_NEAR(ratio(honest, kGoesOn), 9, 2);
  EXPECT_NEAR(ratio(always, kGoesOn), 1, 0.2);
}

TEST(HintTrust, ARequestThatDoesNotContinueCountsAsEndedAfterAWhile) {
  HintTrust trust;
  Client client{trust};
  for (int i = 0; i < 40; ++i) client.ask(kGoesOn, true);
  for (int i = 0; i < 30; ++i) {
    const auto goes_on = trust.open(kOwner, kGoesOn, kEven, client.now);
    static_cast<void>(trust.open(kOwner, kEnds, kEven, client.now));
    trust.continues(goes_on);
  }
  static_cast<void>(trust.open(kOwner, kEnds, kEven, client.now + HintTrust::kPatience - 1));
  const double before = ratio(trust, kGoesOn);
  static_cast<void>(trust.open(kOwner, kEnds, kEven, client.now + HintTrust::kPatience));
  EXPECT_GT(ratio(trust, kGoesOn), 1.5 * before);
}

TEST(HintTrust, RemembersABoundedNumberOfOwners) {
  HintTrust trust;
  for (std::uint64_t owner = 0; owner < 3 * HintTrust::kMostOwners; ++owner) {
    trust.continues(trust.open(EntryLabel{.bits = owner}, kGoesOn, kEven, 0));
    ASSERT_LE(trust.owners(), HintTrust::kMostOwners);
  }
}

}  // namespace
}  // namespace afterimage
