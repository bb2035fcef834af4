// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/draws/draws.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

const Question kAsked(ScopeId{}, "Tell me a joke");
const SampledRequestId kRequest = sampled_request_id(kAsked, "whole", "");

RequesterId requester(std::uint64_t number) {
  Rng rng(number);
  return {.low = rng(), .high = rng()};
}
const RequesterId kAnn = requester(1);
const RequesterId kBob = requester(2);
const RequesterId kCid = requester(3);

/// Claims a draw and stores its answer, if it is new.
DrawClaim have(Draws& draws, const RequesterId& who, const DrawRules& rules = {},
               Duration now = 0s) {
  DrawClaim claim = draws.claim(kRequest, who, rules, now);
  if (claim.is_new) {
    EXPECT_TRUE(draws.stored(*claim.draw));
  }
  draws.check_invariants();
  return claim;
}

TEST(SampledRequestId, DiffersByQuestionFormAndSharers) {
  const std::set<SampledRequestId> ids{kRequest, sampled_request_id(kAsked, "stream", ""),
                                       sampled_request_id(kAsked, "whole", "tenant/a"),
                                       sampled_request_id(Question(ScopeId{}, "x"), "whole", "")};
  EXPECT_EQ(ids.size(), 4U);
}

TEST(Draws, AreStoredInScopesOfTheirOwn) {
  Draws draws;
  const Draw one = *have(draws, kAnn).draw;
  const Draw two = *have(draws, kAnn).draw;
  EXPECT_NE(question_of(one, kAsked).scope().key, kAsked.scope().key);
  EXPECT_NE(question_of(one, kAsked).scope().key, question_of(two, kAsked).scope().key);
  EXPECT_EQ(question_of(one, kAsked).scope().space, kAsked.scope().space);
  EXPECT_EQ(question_of(one, kAsked).scope().loosest, MatchLevel::kExact);
}

TEST(Draws, WhoAsksFirstGetsTheFirstAndTheNextRequesterHasItToo) {
  Draws draws;
  const DrawClaim first = have(draws, kAnn);
  EXPECT_TRUE(first.is_new);
  EXPECT_EQ(first.draw->number, 1U);
  const DrawClaim second = have(draws, kBob);
  EXPECT_FALSE(second.is_new);
  EXPECT_TRUE(second.is_stored);
  EXPECT_EQ(second.draw, first.draw);
}

TEST(Draws, NobodyGetsADrawTwice) {
  Draws draws;
  std::set<std::uint64_t> had;
  for (int i = 0; i < 8; ++i) {
    const DrawClaim claim = have(draws, kAnn);
    EXPECT_EQ(claim.had_others, i > 0);
    EXPECT_TRUE(had.insert(claim.draw->serial).second);
  }
  const DrawClaim beyond = have(draws, kAnn);
  EXPECT_FALSE(beyond.draw.has_value()) << "answers.draws are kept";
  EXPECT_TRUE(beyond.had_others);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(have(draws, kBob).draw->number, i + 1);
  EXPECT_FALSE(have(draws, kBob).draw.has_value());
}

TEST(Draws, OneRequesterWhoAsksAtOnceGetsDifferentDrawsAndOthersWaitForThem) {
  Draws draws;
  const DrawClaim one = draws.claim(kRequest, kAnn, {}, 0s);
  const DrawClaim two = draws.claim(kRequest, kAnn, {}, 0s);
  EXPECT_TRUE(one.is_new && two.is_new);
  EXPECT_NE(one.draw, two.draw);
  // The second is done first. That says that it is short, so it decides nothing.
  EXPECT_TRUE(draws.stored(*two.draw));
  const DrawClaim others = draws.claim(kRequest, kBob, {}, 0s);
  EXPECT_EQ(others.draw, one.draw);
  EXPECT_FALSE(others.is_new || others.is_stored);
  draws.check_invariants();
}

TEST(Draws, WhoseDrawFailedHasNotHadIt) {
  Draws draws;
  const DrawClaim failed = draws.claim(kRequest, kAnn, {}, 0s);
  EXPECT_EQ(draws.claim(kRequest, kBob, {}, 0s).draw, failed.draw);
  draws.drop(*failed.draw);
  draws.check_invariants();
  EXPECT_FALSE(draws.holds(*failed.draw));
  EXPECT_FALSE(draws.stored(*failed.draw)) << "its answer must go";
  EXPECT_EQ(draws.requests(), 0U);
  const DrawClaim again = have(draws, kAnn);
  EXPECT_TRUE(again.is_new);
  EXPECT_FALSE(again.had_others);
  EXPECT_EQ(have(draws, kBob).draw, again.draw);
}

TEST(Draws, WhoLeavesBeforeTheAnswerHasNotHadIt) {
  Draws draws;
  const DrawClaim asked = draws.claim(kRequest, kAnn, {}, 0s);
  draws.leave(*asked.draw, kAnn);
  EXPECT_EQ(draws.claim(kRequest, kAnn, {}, 0s).draw, asked.draw) << "it is on its way";
  draws.leave(*asked.draw, kAnn);
  EXPECT_TRUE(draws.stored(*asked.draw));
  const DrawClaim back = draws.claim(kRequest, kAnn, {}, 0s);
  EXPECT_EQ(back.draw, asked.draw);
  EXPECT_TRUE(back.is_stored);
  draws.leave(*asked.draw, kAnn);
  EXPECT_NE(draws.claim(kRequest, kAnn, {}, 0s).draw, asked.draw) << "it was given the answer";
}

TEST(Draws, ADrawWhoseAnswerLeftTheCacheIsForgotten) {
  Draws draws;
  const Draw gone = *have(draws, kAnn).draw;
  const Draw stays = *have(draws, kAnn).draw;
  draws.answer_removed(question_of(gone, kAsked).scope(), kAsked.text());
  draws.answer_removed(ScopeId{}, "of something else");
  draws.check_invariants();
  EXPECT_EQ(have(draws, kBob).draw, stays);
  EXPECT_EQ(have(draws, kAnn).draw->number, 3U);
}

TEST(Draws, TimeBeginsWhenADrawIsAskedFor) {
  Draws draws;
  const DrawRules rules{.ttl = 10s};
  const DrawClaim asked = draws.claim(kRequest, kAnn, rules, 0s);
  // Not done yet. Who comes at 10 s would join a long one, and find no short one.
  EXPECT_NE(draws.claim(kRequest, kBob, rules, 10s).draw, asked.draw);
  DrawRules young = rules;
  young.max_age = 4s;
  EXPECT_EQ(draws.claim(kRequest, kCid, young, 4s).draw, asked.draw);
  EXPECT_TRUE(draws.stored(*asked.draw));
  EXPECT_NE(draws.claim(kRequest, requester(4), young, 5s).draw, asked.draw) << "too old for it";
  DrawRules fresh = rules;
  fresh.min_fresh = 6s;
  EXPECT_NE(draws.claim(kRequest, requester(5), fresh, 5s).draw, asked.draw);
  const DrawClaim later = draws.claim(kRequest, requester(6), rules, 10s);
  EXPECT_NE(later.draw, asked.draw);
  ASSERT_EQ(later.retired.size(), 1U);
  EXPECT_EQ(later.retired.front(), asked.draw);
  draws.check_invariants();
}

TEST(Draws, RulesSayWhetherOneIsStartedOrWaitedFor) {
  Draws draws;
  EXPECT_FALSE(draws.claim(kRequest, kAnn, {.may_start = false}, 0s).draw.has_value());
  EXPECT_FALSE(draws.claim(kRequest, kAnn, {.may_wait = false}, 0s).draw.has_value());
  EXPECT_EQ(draws.requests(), 0U);
  const DrawClaim asked = draws.claim(kRequest, kAnn, {}, 0s);
  EXPECT_FALSE(draws.claim(kRequest, kBob, {.may_wait = false}, 0s).draw.has_value());
  EXPECT_EQ(draws.claim(kRequest, kBob, {.may_start = false}, 0s).draw, asked.draw);
  EXPECT_TRUE(draws.stored(*asked.draw));
  EXPECT_EQ(draws.claim(kRequest, kCid, {.may_wait = false}, 0s).draw, asked.draw);
  EXPECT_TRUE(draws.claim(kRequest, requester(4), {.fresh = true}, 0s).is_new);
  EXPECT_FALSE(draws.claim(kRequest, requester(4), {.most = 2, .fresh = true}, 0s).draw);
}

TEST(Draws, PeekingChangesNothing) {
  Draws draws;
  EXPECT_FALSE(draws.peek(kRequest, kAnn, {}, 0s).draw.has_value());
  const DrawClaim first = have(draws, kAnn);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(draws.peek(kRequest, kBob, {}, 0s).draw, first.draw);
    const DrawClaim anns = draws.peek(kRequest, kAnn, {}, 0s);
    EXPECT_FALSE(anns.draw.has_value());
    EXPECT_TRUE(anns.had_others);
  }
  EXPECT_EQ(have(draws, kBob).draw, first.draw);
}

TEST(Draws, OneThatAsManyHaveHadAsCanBeRememberedRetires) {
  Draws draws;
  const Draw popular = *have(draws, requester(0)).draw;
  std::uint64_t number = 1;
  while (draws.holds(popular)) {
    const DrawClaim claim = have(draws, requester(number++));
    if (claim.is_new) continue;  // taken for somebody who has had it
    if (!claim.retired.empty()) {
      EXPECT_EQ(claim.retired.front(), popular);
    }
    ASSERT_LT(number, 2 * RequesterFilter::kCapacity);
  }
  EXPECT_GT(number, RequesterFilter::kCapacity);
  draws.check_invariants();
}

TEST(Draws, MoreRequestersThanCanBeRememberedMayWait) {
  Draws draws;
  const DrawClaim asked = draws.claim(kRequest, requester(0), {}, 0s);
  for (std::uint64_t i = 1; i <= RequesterFilter::kCapacity * 11 / 10; ++i) {
    EXPECT_EQ(draws.claim(kRequest, requester(i), {}, 0s).draw, asked.draw);
  }
  EXPECT_FALSE(draws.stored(*asked.draw));
  EXPECT_FALSE(draws.holds(*asked.draw));
  draws.check_invariants();
}

TEST(Draws, ForgetsTheRequestThatWasAskedForLeastRecently) {
  Draws draws(2);
  const auto claim = [&](const std::string& words) {
    return draws.claim(sampled_request_id(Question(ScopeId{}, words), "whole", ""), kAnn, {}, 0s);
  };
  const DrawClaim one = claim("1");
  const DrawClaim two = claim("2");
  claim("1");
  claim("3");
  draws.check_invariants();
  EXPECT_TRUE(draws.holds(*one.draw));
  EXPECT_FALSE(draws.holds(*two.draw));
  EXPECT_EQ(draws.requests(), 2U);
}

TEST(Draws, WeighsADrawByThoseBeforeIt) {
  Draws draws;
  EXPECT_EQ(draws.weigh(1000_B, 1s).bytes, 1000_B) << "there is no other";
  EXPECT_EQ(draws.weigh(1'000'000_B, 1s).bytes, 1000_B);
  EXPECT_GT(draws.weigh(1000_B, 1s).bytes, 50'000_B);
}

}  // namespace
}  // namespace afterimage
