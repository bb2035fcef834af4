// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// A question that two gateways get at the same moment is asked of the model once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>

#include "gateway/proxy/testing/sharing_gateways.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::GatewayWorld;
using ::testing::HasSubstr;
using testing::question;
using testing::RawClient;
using testing::SharingGateway;
using testing::Waiting;

constexpr const char* kContent = R"("content":"one")";
constexpr Duration kDefault = 10s;

/// A test fails and does not hang.
template <typename Holds>
void until(Holds holds) {
  const SystemClock clock;
  const Duration end = clock.now() + testing::kPatience;
  while (!holds() && clock.now() < end) std::this_thread::yield();
  EXPECT_TRUE(holds());
}

class AnswerLeases : public ::testing::Test {
 protected:
  /// Until so many more claims were told that another holds the lease.
  void wait_told(int times) {
    const int before = world.turns.theirs;
    until([&] { return world.turns.theirs >= before + times; });
  }
  GatewayWorld world;
};

TEST_F(AnswerLeases, WaitsForTheGatewayThatIsAskingTheSame) {
  SharingGateway one(world);
  SharingGateway other(world);
  Waiting first(one, question("Q"));
  world.model.wait_asked(1);
  Waiting second(other, question("Q"));
  wait_told(3);
  EXPECT_EQ(world.model.asked(), 1U);
  world.model.answer(0, "one");
  EXPECT_EQ(first.said().header("X-Cache"), "MISS");
  EXPECT_THAT(first.said().body, HasSubstr(kContent));
  EXPECT_EQ(second.said().status, 200U);
  EXPECT_THAT(second.said().body, HasSubstr(kContent));
  EXPECT_EQ(second.said().header("X-Cache"), "HIT");
  EXPECT_EQ(second.said().header("X-Cache-Source"), "answered-elsewhere");
  EXPECT_THAT(second.said().header("Cache-Status"), HasSubstr("collapsed"));
  const Decision decision = other.decision();
  EXPECT_EQ(decision.outcome, Outcome::kJoined);
  EXPECT_EQ(decision.reason, Reason::kAnsweredElsewhere);
  EXPECT_EQ(decision.level, "text:exact");
  until([&] { return world.turns.held() == 0; });
  EXPECT_EQ(world.model.asked(), 1U);
  EXPECT_EQ(one.leases("acquired"), 1U);
  EXPECT_EQ(other.leases("elsewhere"), 1U);
  EXPECT_EQ(other.leases("acquired"), 0U);
  Waiting third(other, question("Q"));
  EXPECT_EQ(third.said().header("X-Cache-Source"), "text:exact") << "it is in memory by now";
}

TEST_F(AnswerLeases, AStreamWaitsForAStreamAndNotForAWholeAnswer) {
  SharingGateway one(world);
  SharingGateway other(world);
  const std::string streamed = question("Q", R"(,"stream":true)");
  Waiting first(one, streamed);
  world.model.wait_asked(1);
  Waiting whole(other, question("Q"));
  world.model.wait_asked(2);
  Waiting second(other, streamed);
  wait_told(1);
  world.model.answer(1, "one");
  EXPECT_EQ(whole.said().header("X-Cache"), "MISS");
  // A whole answer serves a stream, too.
  EXPECT_THAT(second.said().body, HasSubstr(kContent));
  EXPECT_THAT(second.said().body, ::testing::EndsWith("data: [DONE]\n\n"));
  EXPECT_EQ(second.said().header("X-Cache-Source"), "answered-elsewhere");
  EXPECT_EQ(world.model.asked(), 2U);
  world.model.fail(0);
}

TEST_F(AnswerLeases, ALeaseIsHeldUntilOthersCanFindTheAnswer) {
  std::atomic<bool> entered = false;
  std::atomic<bool> goes_on = false;
  std::atomic<int> given_back = 0;
  std::atomic<int> too_early = 0;
  SharingGateway one(world);
  SharingGateway other(world);
  world.tier.before_put = [&] {
    entered = true;
    until([&] { return goes_on.load(); });
  };
  world.turns.before_giving_back = [&](const TierKey& entry) {
    ++given_back;
    too_early += world.tier.may_contain(entry) ? 0 : 1;
  };
  Waiting first(one, question("Q"));
  world.model.wait_asked(1);
  Waiting second(other, question("Q"));
  wait_told(1);
  world.model.answer(0, "one");
  EXPECT_EQ(first.said().status, 200U) << "who asked does not wait for it";
  until([&] { return entered.load(); });
  const int told = world.turns.theirs;
  until([&] { return world.turns.theirs > told + 1 || world.model.asked() > 1; });
  EXPECT_EQ(world.model.asked(), 1U);
  EXPECT_EQ(given_back, 0);
  goes_on = true;
  EXPECT_THAT(second.said().body, HasSubstr(kContent));
  until([&] { return world.turns.held() == 0; });
  EXPECT_EQ(too_early, 0);
}

TEST_F(AnswerLeases, LooksAgainAfterTheClaimSucceeded) {
  std::atomic<bool> answered = false;
  SharingGateway one(world);
  SharingGateway other(world);
  Waiting first(one, question("Q"));
  world.model.wait_asked(1);
  // After the other has looked, and before it has the lease.
  world.turns.before_claim = [&] {
    if (answered.exchange(true)) return;
    world.model.answer(0, "one");
    until([&] { return world.turns.held() == 0; });
  };
  Waiting second(other, question("Q"));
  EXPECT_THAT(second.said().body, HasSubstr(kContent));
  EXPECT_EQ(second.said().header("X-Cache-Source"), "text:exact") << "it did not wait";
  EXPECT_EQ(world.model.asked(), 1U);
  EXPECT_EQ(other.leases("elsewhere"), 0U) << "nor is it known that it was not there before";
  until([&] { return world.turns.held() == 0; });
}

TEST_F(AnswerLeases, RequestsThatAskTheSameAtOneGatewayLookUpAndClaimOnce) {
  world.tier.knows_nothing = true;
  std::atomic<bool> goes_on = false;
  world.turns.before_claim = [&] { until([&] { return goes_on.load(); }); };
  SharingGateway one(world);
  Waiting first(one, question("Q"));
  Waiting second(one, question("Q"));
  Waiting third(one, question("Q"));
  until([&] { return one.gateway().responses().subscribers() == 3; });
  EXPECT_EQ(world.tier.gets, 0) << "before the claim";
  goes_on = true;
  world.model.wait_asked(1);
  const int gets = world.tier.gets;
  world.model.answer(0, "one");
  for (Waiting* one_of_them : {&first, &second, &third}) {
    EXPECT_THAT(one_of_them->said().body, HasSubstr(kContent));
  }
  EXPECT_EQ(world.turns.claims, 1);
  EXPECT_EQ(world.tier.gets, gets);
  EXPECT_LE(gets, 4) << "one for each form";
  EXPECT_EQ(world.model.asked(), 1U);
  until([&] { return world.turns.held() == 0; });
}

TEST_F(AnswerLeases, WhatTheLeaderFindsIsAHitForAllThatAskTheSame) {
  SharingGateway one(world);
  SharingGateway other(world);
  Waiting stores(one, question("Q"));
  world.model.wait_asked(1);
  world.model.answer(0, "one");
  EXPECT_EQ(stores.said().status, 200U);
  until([&] { return world.turns.held() == 0; });
  std::atomic<bool> goes_on = false;
  world.turns.before_claim = [&] { until([&] { return goes_on.load(); }); };
  Waiting first(other, question("Q"));
  Waiting second(other, question("Q"));
  Waiting third(other, question("Q"));
  until([&] { return other.gateway().responses().subscribers() == 3; });
  goes_on = true;
  for (Waiting* one_of_them : {&first, &second, &third}) {
    EXPECT_THAT(one_of_them->said().body, HasSubstr(kContent));
    EXPECT_EQ(one_of_them->said().header("X-Cache"), "HIT");
    EXPECT_EQ(one_of_them->said().header("X-Cache-Source"), "text:exact");
  }
  EXPECT_EQ(world.model.asked(), 1U);
  EXPECT_EQ(other.leases("elsewhere"), 0U) << "nobody waited for another gateway";
  until([&] { return world.turns.held() == 0; });
}

TEST_F(AnswerLeases, ALeaderFindsTheAnswerToLooserWords) {
  SharingGateway one(world);
  SharingGateway other(world);
  Waiting stores(one, question("What is a cache?"));
  world.model.wait_asked(1);
  world.model.answer(0, "one");
  EXPECT_EQ(stores.said().status, 200U);
  until([&] { return world.turns.held() == 0; });
  Waiting asks(other, question("what is a  cache"));
  EXPECT_THAT(asks.said().body, HasSubstr(kContent));
  EXPECT_EQ(asks.said().header("X-Cache"), "HIT");
  EXPECT_EQ(world.model.asked(), 1U);
  until([&] { return world.turns.held() == 0; });
}

TEST_F(AnswerLeases, WaitsAtMostForTheCoalesceTimeout) {
  for (const Duration timeout : {kDefault, Duration(3s)}) {
    GatewayWorld here;
    const std::string toml = timeout == kDefault ? "" : "[answers]\ncoalesce_timeout = \"3 s\"\n";
    SharingGateway one(here, toml);
    SharingGateway other(here, toml);
    Waiting first(one, question("Q"));
    here.model.wait_asked(1);
    Waiting second(other, question("Q"));
    until([&] { return here.turns.theirs > 0; });
    here.clock.advance(timeout - 1ns);
    const int told = here.turns.theirs;
    until([&] { return here.turns.theirs > told + 1 || here.model.asked() > 1; });
    EXPECT_EQ(here.model.asked(), 1U);
    here.clock.advance(1ns);
    here.model.wait_asked(2);
    here.model.answer(1, "two");
    EXPECT_EQ(second.said().header("X-Cache"), "MISS");
    EXPECT_THAT(second.said().body, HasSubstr(R"("content":"two")"));
    EXPECT_EQ(here.turns.held(), 1U) << "the first has it still";
    EXPECT_EQ(other.leases("expired"), 1U);
    here.model.answer(0, "one");
    EXPECT_THAT(first.said().body, HasSubstr(kContent));
  }
}

TEST_F(AnswerLeases, WithoutServersEachGatewayAsks) {
  world.turns.lost = true;
  SharingGateway one(world);
  SharingGateway other(world);
  Waiting first(one, question("Q"));
  Waiting second(other, question("Q"));
  world.model.wait_asked(2);
  world.model.answer(0, "one");
  world.model.answer(1, "one");
  EXPECT_EQ(first.said().header("X-Cache"), "MISS");
  EXPECT_EQ(second.said().header("X-Cache"), "MISS");
  EXPECT_EQ(one.leases("unavailable") + other.leases("unavailable"), 2U);
}

TEST_F(AnswerLeases, LosingTheServersEndsTheWait) {
  SharingGateway one(world);
  SharingGateway other(world);
  Waiting first(one, question("Q"));
  world.model.wait_asked(1);
  Waiting second(other, question("Q"));
  wait_told(1);
  world.turns.lost = true;
  world.model.wait_asked(2);
  world.model.answer(1, "one");
  EXPECT_EQ(second.said().header("X-Cache"), "MISS");
  world.model.fail(0);
}

TEST_F(AnswerLeases, WhenTheHolderFailsTheOtherAsks) {
  for (const unsigned status : {0U, 429U, 500U}) {
    GatewayWorld here;
    SharingGateway one(here);
    SharingGateway other(here);
    Waiting first(one, question("Q"));
    here.model.wait_asked(1);
    Waiting second(other, question("Q"));
    until([&] { return here.turns.theirs > 0; });
    status == 0 ? here.model.fail(0) : here.model.refuse(0, status);
    EXPECT_EQ(first.said().status, status == 0 ? 502U : status);
    here.model.wait_asked(2);
    EXPECT_EQ(here.turns.held(), 1U) << "the other has it";
    here.model.answer(1, "two");
    EXPECT_EQ(second.said().status, 200U);
    until([&] { return here.turns.held() == 0; });
  }
}

TEST_F(AnswerLeases, EachGatewayAsksWhatIsNotStored) {
  SharingGateway one(world);
  SharingGateway other(world);
  Waiting first(one, question("Q"));
  world.model.wait_asked(1);
  Waiting second(other, question("Q"));
  wait_told(1);
  world.model.answer(0, "one", "length");
  world.model.wait_asked(2);
  world.model.answer(1, "two", "length");
  EXPECT_THAT(second.said().body, HasSubstr(R"("content":"two")"));
  until([&] { return world.turns.held() == 0; });
}

TEST_F(AnswerLeases, AnotherGatewayTakesOverFromOneThatDied) {
  SharingGateway one(world);
  SharingGateway other(world);
  Waiting first(one, question("Q"));
  world.model.wait_asked(1);
  Waiting second(other, question("Q"));
  wait_told(1);
  world.turns.expire();
  world.model.wait_asked(2);
  world.model.answer(1, "two");
  EXPECT_THAT(second.said().body, HasSubstr(R"("content":"two")"));
  world.model.answer(0, "one");
  EXPECT_THAT(first.said().body, HasSubstr(kContent)) << "it was only late";
}

/// A client that can leave.
struct LeavingClient {
  LeavingClient(SharingGateway& gateway, const std::string& body) : raw(gateway.port()) {
    raw.send("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " +
             std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  RawClient raw;
};

TEST_F(AnswerLeases, AClientThatLeavesEndsTheWaitWithoutAsking) {
  for (const char* toml : {"", "[answers]\nfinish_abandoned = true\n"}) {
    GatewayWorld here;
    SharingGateway one(here);
    SharingGateway other(here, toml);
    Waiting first(one, question("Q"));
    here.model.wait_asked(1);
    LeavingClient second(other, question("Q"));
    until([&] { return here.turns.theirs > 0; });
    second.raw.close();
    EXPECT_EQ(other.decision().status, 499U);
    EXPECT_EQ(other.in_flight(), 0U);
    EXPECT_EQ(other.gateway().responses().size(), 0U);
    here.model.answer(0, "one");
    EXPECT_EQ(first.said().status, 200U);
    until([&] { return here.turns.held() == 0; });
    EXPECT_EQ(here.model.asked(), 1U);
  }
}

TEST_F(AnswerLeases, AHolderWhoseClientLeavesGivesTheLeaseBack) {
  SharingGateway one(world);
  SharingGateway other(world);
  LeavingClient first(one, question("Q"));
  world.model.wait_asked(1);
  Waiting second(other, question("Q"));
  wait_told(1);
  first.raw.close();
  world.model.wait_asked(2);
  world.model.answer(1, "two");
  EXPECT_THAT(second.said().body, HasSubstr(R"("content":"two")"));
  until([&] { return world.turns.held() == 0; });
}

TEST_F(AnswerLeases, AFollowerOfAWaitingLeaderLooksUpByItsOwnRules) {
  SharingGateway one(world);
  SharingGateway other(world);
  Waiting first(one, question("Q"), "X-Afterimage-TTL: 9\r\n");
  world.model.wait_asked(1);
  Waiting leads(other, question("Q"));
  wait_told(1);
  Waiting joins(other, question("Q"));
  Waiting wants_it_for_long(other, question("Q"), "Cache-Control: min-fresh=60\r\n");
  until([&] { return other.gateway().responses().subscribers() == 3; });
  world.model.answer(0, "one");
  EXPECT_EQ(leads.said().header("X-Cache-Source"), "answered-elsewhere");
  EXPECT_EQ(joins.said().header("X-Cache-Source"), "answered-elsewhere");
  EXPECT_THAT(joins.said().body, HasSubstr(kContent));
  world.model.wait_asked(2);
  world.model.answer(1, "two");
  EXPECT_EQ(wants_it_for_long.said().header("X-Cache"), "MISS");
  until([&] { return world.turns.held() == 0; });
}

TEST_F(AnswerLeases, GatewaysEndWhileTheyWaitAndWhileTheyAsk) {
  std::optional<SharingGateway> one(std::in_place, world);
  std::optional<SharingGateway> other(std::in_place, world);
  Waiting first(*one, question("Q"));
  world.model.wait_asked(1);
  Waiting second(*other, question("Q"));
  Waiting joins(*other, question("Q"));
  wait_told(2);
  other.reset();
  EXPECT_EQ(second.said().status, 0U);
  EXPECT_EQ(joins.said().status, 0U);
  EXPECT_EQ(world.turns.held(), 1U);
  one.reset();
  EXPECT_EQ(world.turns.held(), 0U) << "what it asked for another may ask";
  EXPECT_EQ(world.model.asked(), 1U);
}

TEST_F(AnswerLeases, TimingProtectedAndUncacheableRequestsUseNoLeases) {
  const struct {
    const char* name;
    const char* toml;
    const char* headers;
  } kCases[] = {
      {"waiting is off", "[answers]\ncoalesce_timeout = \"0 s\"\n", ""},
      {"timing protection", "[answers]\ntiming_protection = \"all\"\n", ""},
      {"no-cache", "", "Cache-Control: no-cache\r\n"},
      {"no-store", "", "Cache-Control: no-store\r\n"},
      {"max-age=0", "", "Cache-Control: max-age=0\r\n"},
      {"cache off", "", "X-Afterimage-Cache: off\r\n"},
  };
  for (const auto& c : kCases) {
    GatewayWorld here;
    here.model.answer_at_once();
    SharingGateway one(here, c.toml);
    Waiting asked(one, question("Q"), c.headers);
    EXPECT_EQ(asked.said().status, 200U) << c.name;
    EXPECT_EQ(here.turns.claims, 0) << c.name;
    EXPECT_EQ(here.model.asked(), 1U) << c.name;
  }
}

}  // namespace
}  // namespace afterimage
