// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "caches/answers/testing/answering_fleet.h"
#include "caches/answers/testing/filters.h"
#include "caches/invalidation/invalidation_poller.h"
#include "testing/leases_in_memory.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::answer;
using testing::AnsweringProcess;
using testing::filters_of_each_kind;
using testing::named_facts;
using testing::scope;
using testing::SharedWorld;

constexpr Duration kLease = InvalidationLog::kLease;

/// Two processes that know what has been erased.
struct Two {
  Two() { learn(); }
  void learn() const { EXPECT_TRUE(one.learn() && other.learn()); }
  SharedWorld world;
  AnsweringProcess one{world};
  AnsweringProcess other{world};
};

TEST(SharedAnswers, WhatOneWasAskedTheOtherAnswers) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  EXPECT_EQ(two.other.asked("q"), "a");
  EXPECT_EQ(two.other.archive->stats().restored, 1U);
  EXPECT_EQ(two.other.asked("q"), "a");
  EXPECT_EQ(two.other.archive->stats().restored, 1U) << "it is in memory by now";
  two.other.start();
  EXPECT_EQ(two.other.asked("q"), "") << "it does not know what was erased";
  ASSERT_TRUE(two.other.learn());
  EXPECT_EQ(two.other.asked("q"), "a");
}

TEST(SharedAnswers, WhatOneErasesIsGoneAtTheOther) {
  for (const auto& c : filters_of_each_kind("Q", 500ms)) {
    for (const bool learns : {false, true}) {
      Two two;
      ASSERT_TRUE(two.one.put("q", "a", named_facts()).has_value());
      EXPECT_EQ(two.other.asked("q"), "a");
      two.world.pass(1s);
      two.learn();
      ASSERT_TRUE(two.one.put("r", "b").has_value());
      ASSERT_TRUE(two.one.erase(c.filter)) << c.name;
      EXPECT_EQ(two.other.asked("q"), "") << c.name;
      if (learns) two.learn();
      EXPECT_EQ(two.one.asked("q"), "") << c.name;
      EXPECT_EQ(two.other.asked("q"), "") << c.name;
      two.learn();
      EXPECT_EQ(two.other.asked("r"), c.whole_scope ? "" : "b") << c.name;
      ASSERT_TRUE(two.other.put("q", "new", named_facts()).has_value());
      EXPECT_EQ(two.one.asked("q"), "new") << c.name << ": it was made after";
    }
  }
}

TEST(SharedAnswers, OneQuestionIsErasedHoweverFarItsScopeFolds) {
  Two two;
  ScopeId pictured = scope(2);
  pictured.loosest = TextRung::kCanonical;
  Question question(pictured, "q");
  ASSERT_TRUE(two.one.archive->insert(question, answer("a"), {}).has_value());
  ASSERT_TRUE(two.other.archive->restore(question).has_value());
  ASSERT_EQ(two.other.cache->stats().entries, EntryCount(1));
  ASSERT_TRUE(two.one.archive->erase(question).has_value());
  two.learn();
  EXPECT_EQ(two.other.cache->stats().entries, EntryCount(0));
  EXPECT_FALSE(two.other.archive->restore(question).has_value());
}

TEST(SharedAnswers, WithoutTheListNothingIsGivenNotEvenFromMemory) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  EXPECT_EQ(two.other.asked("q"), "a");
  two.other.cell->unreachable = true;
  two.world.pass(kLease - 1ns);
  EXPECT_FALSE(two.other.learn());
  EXPECT_EQ(two.other.asked("q"), "a") << "for as long as it may";
  two.world.pass(1ns);
  EXPECT_EQ(two.other.asked("q"), "");
  EXPECT_FALSE(two.other.archive->stats().may_give);
  EXPECT_GT(two.other.archive->stats().lapsed, 0U);
  EXPECT_NE(two.other.archive->stats().degraded_reason, "");
  ASSERT_TRUE(two.other.put("r", "b").has_value()) << "it goes on keeping";
  two.other.cell->unreachable = false;
  two.learn();
  EXPECT_EQ(two.other.asked("q"), "a");
  EXPECT_EQ(two.other.asked("r"), "b");
  EXPECT_EQ(two.one.asked("r"), "b");
  EXPECT_EQ(two.other.archive->stats().degraded_reason, "");
}

TEST(SharedAnswers, TheLeaseCountsFromBeforeTheListWasAskedFor) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  EXPECT_EQ(two.other.asked("q"), "a");
  two.other.cell->before_reading = [&] { two.world.pass(kLease / 2); };
  two.other.cell->after_reading = [&] { two.world.pass(kLease / 2); };
  ASSERT_TRUE(two.other.learn());
  EXPECT_EQ(two.other.asked("q"), "");
}

TEST(SharedAnswers, ErasingReturnsWhenNobodyCanGiveItAnyMore) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  EXPECT_EQ(two.other.asked("q"), "a");
  const Duration began = two.world.clock.now();
  ASSERT_TRUE(two.one.erase({.tag = "none"}));
  EXPECT_GT(two.world.clock.now() - began, kLease);
  EXPECT_EQ(two.other.asked("q"), "");
}

TEST(SharedAnswers, ErasingThatDoesNotReachAllFailsAndSaysSo) {
  for (const bool unreachable : {false, true}) {
    Two two;
    ASSERT_TRUE(two.one.put("q", "a", {.tags = {"doc:1"}}).has_value());
    two.one.cell->unreachable = unreachable;
    two.world.servers.replicates = unreachable;
    const auto erased = two.one.archive->erase(AnswerFilter{.tag = "doc:1"});
    ASSERT_FALSE(erased.has_value());
    EXPECT_EQ(erased.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(erased.error().message.find("erase again"), std::string::npos);
    EXPECT_EQ(two.one.cache->stats().entries, EntryCount(0)) << "here it is gone";
    EXPECT_FALSE(two.one.erase("q"));
    two.one.cell->unreachable = false;
    two.world.servers.replicates = true;
    EXPECT_TRUE(two.one.erase({.tag = "doc:1"}));
  }
}

TEST(SharedAnswers, TooManyWordsEraseNothing) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  const std::string longer(InvalidationList::kMostBytes + 1, 'q');
  EXPECT_EQ(two.one.archive->erase(AnswerFilter{.words = longer}).error().code,
            ErrorCode::kLimitExceeded);
  EXPECT_EQ(two.one.asked("q"), "a");
}

// Found before it was erased, and given after: the thread had been stopped between.
TEST(SharedAnswers, WhatWasFoundInMemoryIsGivenSoonOrNotAtAll) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  EXPECT_EQ(two.other.asked("q"), "a");
  EXPECT_EQ(two.other.asked("q",
                            [&] {
                              ASSERT_TRUE(two.one.erase("q"));
                              two.learn();
                            }),
            "")
      << "though it knows all by now";
}

TEST(SharedAnswers, WhatIsErasedElsewhereWhileItIsReadIsNotRestored) {
  for (const bool learns : {false, true}) {
    Two two;
    ASSERT_TRUE(two.one.put("q", "a").has_value());
    two.world.tier.after_get = [&] {
      ASSERT_TRUE(two.one.erase("q"));
      if (learns) two.learn();
    };
    EXPECT_EQ(two.other.asked("q"), "");
    two.learn();
    EXPECT_EQ(two.other.asked("q"), "");
  }
}

TEST(SharedAnswers, AnAnswerInHandIsNotKeptIfItWasErasedMeanwhile) {
  for (const bool learns : {false, true}) {
    Two two;
    Question question(scope(1), "q");
    const AnswerFacts facts{.tags = {"doc:1"}};
    const AnswerArchive::ReadLease before = two.other.archive->read_lease();
    ASSERT_TRUE(two.one.erase({.tag = "doc:1"}));
    two.world.pass(1h);
    if (learns) two.learn();
    const auto kept = two.other.archive->insert_into_cache(question, answer("a"), facts, before);
    EXPECT_EQ(kept.has_value(), !learns);
    two.other.archive->keep(question, answer("a"), facts, before);
    EXPECT_EQ(two.other.asked("q"), "");
    two.learn();
    EXPECT_EQ(two.other.asked("q"), "");
    EXPECT_EQ(two.one.asked("q"), "");
  }
}

TEST(SharedAnswers, WithANewListAllThatWasKeptIsLost) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  EXPECT_EQ(two.other.asked("q"), "a");
  Question question(scope(1), "r");
  const AnswerArchive::ReadLease before = two.one.archive->read_lease();
  two.world.servers.lose_all();
  two.learn();
  EXPECT_EQ(two.one.asked("q"), "");
  EXPECT_EQ(two.other.asked("q"), "");
  EXPECT_FALSE(two.one.archive->insert_into_cache(question, answer("b"), {}, before).has_value());
  two.one.archive->keep(question, answer("b"), {}, before);
  EXPECT_EQ(two.other.asked("r"), "");
  EXPECT_EQ(two.one.archive->stats().begun, 2U);
  ASSERT_TRUE(two.one.put("q", "new").has_value());
  EXPECT_EQ(two.other.asked("q"), "new");
}

TEST(SharedAnswers, WhoSleptThroughMoreThanIsToldApartForgetsAll) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  EXPECT_EQ(two.other.asked("q"), "a");
  two.one.wait = [](Duration) {};
  for (std::size_t i = 0; i <= InvalidationList::kMost; ++i) {
    ASSERT_TRUE(two.one.erase({.tag = "tag" + std::to_string(i)}));
  }
  two.learn();
  EXPECT_EQ(two.other.cache->stats().entries, EntryCount(0));
  EXPECT_EQ(two.one.cache->stats().entries, EntryCount(1)) << "it knows them all";
  EXPECT_EQ(two.other.asked("q"), "");
}

// What is erased from now on stands in no file, so a file must not bring back what it ruled.
TEST(SharedAnswers, AListInAFileIsGivenUp) {
  SharedWorld world;
  MemoryBudget budget{1_MiB};
  MemoryBudget transfer{1_MiB};
  MemoryFiles files;
  const auto cache = AnswerCache::create({}, budget, world.clock).value();
  testing::SimulatedCell cell(world.servers);
  InvalidationLog list(cell, Secret{std::byte{7}});
  const auto open = [&](InvalidationLog* shared) {
    return AnswerArchive::open({.tier = world.tier,
                                .transfer = transfer,
                                .cache = *cache,
                                .files = files,
                                .erasures = "list",
                                .clock = world.clock,
                                .wall = world.wall,
                                .shared = shared,
                                .wait = [](Duration) {}})
        .value();
  };
  Question question(scope(1), "q");
  ASSERT_TRUE(open(nullptr)->insert(question, answer("a"), {}).has_value());
  EXPECT_TRUE(open(nullptr)->restore(question).has_value());
  {
    const auto shared = open(&list);
    ASSERT_TRUE(shared->refresh().has_value());
    EXPECT_FALSE(shared->restore(question).has_value());
    ASSERT_TRUE(shared->erase(AnswerFilter{}).has_value());
  }
  EXPECT_FALSE(open(nullptr)->restore(question).has_value());
}

/// What is claimed, and not whose turn it is.
class NotedLeases final : public LeaseService {
 public:
  Claim claim(const TierKey& turn, const TierKey& entry) override {
    claimed.emplace_back(turn, entry);
    return {.status = LeaseStatus::kTheirs, .lease = nullptr};
  }
  bool wait(std::uint32_t /*attempt*/, const std::stop_token& /*stop*/) override { return false; }

  std::vector<std::pair<TierKey, TierKey>> claimed;  // turns, and what is made in them
};

TEST(SharedAnswers, ATurnIsOfTheVeryWordsAndTheirEntryIsWhereTheAnswerWillBe) {
  SharedWorld world;
  NotedLeases turns;
  AnsweringProcess one(world, &turns);
  AnsweringProcess other(world, &turns);
  ASSERT_TRUE(one.learn() && other.learn());
  const auto claimed = [&](const AnsweringProcess& process, const ScopeId& where,
                           const std::string& words, std::string_view form = "whole") {
    const auto claim = process.archive->claim(Question(where, words), form);
    EXPECT_EQ(claim.status, LeaseStatus::kTheirs);
    return turns.claimed.back();
  };
  const auto first = claimed(one, scope(1), "q");
  EXPECT_EQ(claimed(other, scope(1), "q"), first);
  EXPECT_NE(first.first, first.second);
  EXPECT_FALSE(world.tier.may_contain(first.second));
  ASSERT_TRUE(one.put("q", "a").has_value());
  EXPECT_TRUE(world.tier.may_contain(first.second));
  EXPECT_FALSE(world.tier.may_contain(first.first));

  ScopeId pictured = scope(1);
  pictured.loosest = TextRung::kCanonical;
  std::set<TierKey> names{first.first};
  EXPECT_TRUE(names.insert(claimed(one, scope(1), "Q").first).second);
  EXPECT_TRUE(names.insert(claimed(one, scope(2), "q").first).second);
  EXPECT_TRUE(names.insert(claimed(one, pictured, "q").first).second);
  const auto streamed = claimed(one, scope(1), "q", "stream");
  EXPECT_TRUE(names.insert(streamed.first).second);
  EXPECT_EQ(streamed.second, first.second) << "both are put in one place";
  world.servers.lose_all();
  ASSERT_TRUE(one.learn());
  EXPECT_TRUE(names.insert(claimed(one, scope(1), "q").first).second) << "another list";
}

TEST(SharedAnswers, WhoMayGiveNothingWaitsForNobody) {
  SharedWorld world;
  testing::LeasesInMemory turns;
  AnsweringProcess one(world, &turns);
  const Question question(scope(1), "q");
  EXPECT_EQ(one.archive->claim(question, "whole").status, LeaseStatus::kUnknown);
  ASSERT_TRUE(one.learn());
  EXPECT_EQ(one.archive->claim(question, "whole").status, LeaseStatus::kOurs);
  world.pass(kLease);
  EXPECT_EQ(one.archive->claim(question, "whole").status, LeaseStatus::kUnknown);
  EXPECT_EQ(turns.claims, 1);
  const AnsweringProcess alone(world);
  EXPECT_FALSE(alone.archive->takes_turns());
  EXPECT_EQ(alone.archive->claim(question, "whole").status, LeaseStatus::kUnknown);
}

// A tier remembers for a while that it had nothing.
TEST(SharedAnswers, WhatWasNotThereAMomentAgoIsFoundAnew) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a", {.ttl = 10s}).has_value());
  two.world.tier.says_absent = true;
  Question question(scope(1), "q");
  EXPECT_FALSE(two.other.archive->restore(question).has_value());
  const auto found = two.other.archive->restore_anew(question);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->answer.value().text, "a");
  EXPECT_EQ(found->steps.back().rung, TextRung::kExact);
  EXPECT_EQ(two.other.cache->stats().entries, EntryCount(1));
  EXPECT_FALSE(two.other.archive->restore_anew(question, {.min_fresh = 11s}).has_value());
  EXPECT_FALSE(two.other.archive->restore_anew(Question(scope(1), "Q")).has_value())
      << "the very words alone";
  EXPECT_EQ(two.other.archive->stats().failed, 0U) << "nothing was there to fail";
  ASSERT_TRUE(two.one.erase("q"));
  EXPECT_FALSE(two.other.archive->restore_anew(question).has_value());
  two.learn();
  EXPECT_FALSE(two.other.archive->restore_anew(question).has_value());
}

TEST(SharedAnswers, AWatchGoesOnLearning) {
  Two two;
  const InvalidationPoller poller([&] { static_cast<void>(two.other.archive->refresh()); }, 1ms);
  while (two.other.cell->reads < 4) std::this_thread::yield();
}

}  // namespace
}  // namespace afterimage
