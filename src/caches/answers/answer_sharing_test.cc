// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "caches/answers/testing/answering_fleet.h"
#include "caches/answers/testing/filters.h"
#include "foundation/platform/periodic_task.h"
#include "foundation/platform/testing/memory_files.h"
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

/// Two processes that have read the shared list.
struct Two {
  Two() { refresh(); }
  void refresh() const { EXPECT_TRUE(one.refresh() && other.refresh()); }
  SharedWorld world;
  AnsweringProcess one{world};
  AnsweringProcess other{world};
};

TEST(SharedAnswers, ProcessesShareTheirAnswers) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  EXPECT_EQ(two.other.ask("q"), "a");
  EXPECT_EQ(two.other.archive->stats().restored, 1U);
  EXPECT_EQ(two.other.ask("q"), "a");
  EXPECT_EQ(two.other.archive->stats().restored, 1U) << "the second hit is from memory";
  two.other.start();
  EXPECT_EQ(two.other.ask("q"), "") << "it has no lease";
  ASSERT_TRUE(two.other.refresh());
  EXPECT_EQ(two.other.ask("q"), "a");
}

TEST(SharedAnswers, AnErasureReachesTheOtherProcess) {
  for (const auto& c : filters_of_each_kind("Q", 500ms)) {
    for (const bool refreshes : {false, true}) {
      Two two;
      ASSERT_TRUE(two.one.put("q", "a", named_facts()).has_value());
      EXPECT_EQ(two.other.ask("q"), "a");
      two.world.pass(1s);
      two.refresh();
      ASSERT_TRUE(two.one.put("r", "b").has_value());
      ASSERT_TRUE(two.one.erase(c.filter)) << c.name;
      EXPECT_EQ(two.other.ask("q"), "") << c.name;
      if (refreshes) two.refresh();
      EXPECT_EQ(two.one.ask("q"), "") << c.name;
      EXPECT_EQ(two.other.ask("q"), "") << c.name;
      two.refresh();
      EXPECT_EQ(two.other.ask("r"), c.whole_scope ? "" : "b") << c.name;
      ASSERT_TRUE(two.other.put("q", "new", named_facts()).has_value());
      EXPECT_EQ(two.one.ask("q"), "new") << c.name << ": it was created after";
    }
  }
}

TEST(SharedAnswers, AProcessHearsOnceWhatOthersAnnounceAndNotWhatItAnnounced) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a", named_facts()).has_value());
  ASSERT_TRUE(two.one.archive->announce("erase/one").has_value());
  two.refresh();
  two.refresh();
  EXPECT_EQ(two.other.heard, std::vector<std::string>{"erase/one"});
  // Another's entry is heard also when it is read while one's own is added.
  ASSERT_TRUE(two.other.archive->announce("erase/two").has_value());
  ASSERT_TRUE(two.one.archive->announce("erase/three").has_value());
  EXPECT_EQ(two.one.heard, std::vector<std::string>{"erase/two"});
  two.refresh();
  EXPECT_EQ(two.other.heard, (std::vector<std::string>{"erase/one", "erase/three"}));
  EXPECT_EQ(two.one.ask("q"), "a") << "no answer has such a tag";
  two.one.cell->unreachable = true;
  EXPECT_FALSE(two.one.archive->announce("erase/four").has_value());
}

TEST(SharedAnswers, ErasesAQuestionWhateverItsLoosestLevel) {
  Two two;
  ScopeId pictured = scope(2);
  pictured.loosest = MatchLevel::kCanonical;
  Question question(pictured, "q");
  ASSERT_TRUE(two.one.archive->insert(question, answer("a"), {}).has_value());
  ASSERT_TRUE(two.other.archive->restore(question).has_value());
  ASSERT_EQ(two.other.cache->stats().entries, EntryCount(1));
  ASSERT_TRUE(two.one.archive->erase(question).has_value());
  two.refresh();
  EXPECT_EQ(two.other.cache->stats().entries, EntryCount(0));
  EXPECT_FALSE(two.other.archive->restore(question).has_value());
}

TEST(SharedAnswers, WithoutALeaseNothingIsServedNotEvenFromMemory) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  EXPECT_EQ(two.other.ask("q"), "a");
  two.other.cell->unreachable = true;
  two.world.pass(kLease - 1ns);
  EXPECT_FALSE(two.other.refresh());
  EXPECT_EQ(two.other.ask("q"), "a") << "while its lease lasts";
  two.world.pass(1ns);
  EXPECT_EQ(two.other.ask("q"), "");
  EXPECT_FALSE(two.other.archive->stats().may_serve);
  EXPECT_GT(two.other.archive->stats().without_lease, 0U);
  EXPECT_NE(two.other.archive->stats().degraded_reason, "");
  ASSERT_TRUE(two.other.put("r", "b").has_value()) << "it still caches answers";
  two.other.cell->unreachable = false;
  two.refresh();
  EXPECT_EQ(two.other.ask("q"), "a");
  EXPECT_EQ(two.other.ask("r"), "b");
  EXPECT_EQ(two.one.ask("r"), "b");
  EXPECT_EQ(two.other.archive->stats().degraded_reason, "");
}

TEST(SharedAnswers, TheLeaseCountsFromBeforeTheRead) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  EXPECT_EQ(two.other.ask("q"), "a");
  two.other.cell->before_reading = [&] { two.world.pass(kLease / 2); };
  two.other.cell->after_reading = [&] { two.world.pass(kLease / 2); };
  ASSERT_TRUE(two.other.refresh());
  EXPECT_EQ(two.other.ask("q"), "");
}

TEST(SharedAnswers, EraseReturnsWhenNoProcessCanServeTheAnswer) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  EXPECT_EQ(two.other.ask("q"), "a");
  const Duration began = two.world.clock.now();
  ASSERT_TRUE(two.one.erase({.tag = "none"}));
  EXPECT_GT(two.world.clock.now() - began, kLease);
  EXPECT_EQ(two.other.ask("q"), "");
}

TEST(SharedAnswers, AnErasureThatIsNotAcknowledgedFails) {
  for (const bool unreachable : {false, true}) {
    Two two;
    ASSERT_TRUE(two.one.put("q", "a", {.tags = {"doc:1"}}).has_value());
    two.one.cell->unreachable = unreachable;
    two.world.servers.replicates = unreachable;
    const auto erased = two.one.archive->erase(AnswerFilter{.tag = "doc:1"});
    ASSERT_FALSE(erased.has_value());
    EXPECT_EQ(erased.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(erased.error().message.find("erase again"), std::string::npos);
    EXPECT_EQ(two.one.cache->stats().entries, EntryCount(0)) << "erased in this process";
    EXPECT_FALSE(two.one.erase_answer_to("q"));
    two.one.cell->unreachable = false;
    two.world.servers.replicates = true;
    EXPECT_TRUE(two.one.erase({.tag = "doc:1"}));
  }
}

TEST(SharedAnswers, ATooLongFilterErasesNothing) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  const std::string longer(InvalidationList::kMaxBytes + 1, 'q');
  EXPECT_EQ(two.one.archive->erase(AnswerFilter{.words = longer}).error().code,
            ErrorCode::kLimitExceeded);
  EXPECT_EQ(two.one.ask("q"), "a");
}

// The answer was found before it was erased, and the thread was preempted before it was served.
TEST(SharedAnswers, AnAnswerFoundInMemoryIsServedUnderItsLeaseOnly) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  EXPECT_EQ(two.other.ask("q"), "a");
  EXPECT_EQ(two.other.ask("q",
                          [&] {
                            ASSERT_TRUE(two.one.erase_answer_to("q"));
                            two.refresh();
                          }),
            "")
      << "although it has read the list since";
}

TEST(SharedAnswers, DoesNotRestoreAnAnswerErasedElsewhereMeanwhile) {
  for (const bool refreshes : {false, true}) {
    Two two;
    ASSERT_TRUE(two.one.put("q", "a").has_value());
    two.world.tier.after_get = [&] {
      ASSERT_TRUE(two.one.erase_answer_to("q"));
      if (refreshes) two.refresh();
    };
    EXPECT_EQ(two.other.ask("q"), "");
    two.refresh();
    EXPECT_EQ(two.other.ask("q"), "");
  }
}

TEST(SharedAnswers, DoesNotCacheAGeneratedAnswerErasedMeanwhile) {
  for (const bool refreshes : {false, true}) {
    Two two;
    Question question(scope(1), "q");
    const AnswerFacts facts{.tags = {"doc:1"}};
    const AnswerArchive::ReadLease before = two.other.archive->read_lease();
    ASSERT_TRUE(two.one.erase({.tag = "doc:1"}));
    two.world.pass(1h);
    if (refreshes) two.refresh();
    const auto kept = two.other.archive->insert_into_cache(question, answer("a"), facts, before);
    EXPECT_EQ(kept.has_value(), !refreshes);
    two.other.archive->keep(question, answer("a"), facts, before);
    EXPECT_EQ(two.other.ask("q"), "");
    two.refresh();
    EXPECT_EQ(two.other.ask("q"), "");
    EXPECT_EQ(two.one.ask("q"), "");
  }
}

TEST(SharedAnswers, ANewGenerationLosesAllAnswers) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  EXPECT_EQ(two.other.ask("q"), "a");
  Question question(scope(1), "r");
  const AnswerArchive::ReadLease before = two.one.archive->read_lease();
  two.world.servers.lose_all();
  two.refresh();
  EXPECT_EQ(two.one.ask("q"), "");
  EXPECT_EQ(two.other.ask("q"), "");
  EXPECT_FALSE(two.one.archive->insert_into_cache(question, answer("b"), {}, before).has_value());
  two.one.archive->keep(question, answer("b"), {}, before);
  EXPECT_EQ(two.other.ask("r"), "");
  EXPECT_EQ(two.one.archive->stats().generations, 2U);
  ASSERT_TRUE(two.one.put("q", "new").has_value());
  EXPECT_EQ(two.other.ask("q"), "new");
}

TEST(SharedAnswers, AProcessThatMissedMergedEntriesClearsItsCache) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a").has_value());
  EXPECT_EQ(two.other.ask("q"), "a");
  two.one.wait = [](Duration) {};
  for (std::size_t i = 0; i <= InvalidationList::kMaxEntries; ++i) {
    ASSERT_TRUE(two.one.erase({.tag = "tag" + std::to_string(i)}));
  }
  two.refresh();
  EXPECT_EQ(two.other.cache->stats().entries, EntryCount(0));
  EXPECT_EQ(two.one.cache->stats().entries, EntryCount(1)) << "it has applied every entry";
  ASSERT_FALSE(two.other.heard.empty());
  EXPECT_EQ(two.other.heard.front(), "anything");
  EXPECT_EQ(two.other.heard.back(), "tag" + std::to_string(InvalidationList::kMaxEntries));
  EXPECT_EQ(two.other.ask("q"), "");
}

// Later erasures are not recorded in the file, so its answers must not be found again.
TEST(SharedAnswers, SwitchingToASharedListResetsTheFile) {
  SharedWorld world;
  MemoryBudget budget{1_MiB};
  MemoryBudget transfer{1_MiB};
  testing::MemoryFiles files;
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

/// Records claims; grants no lease.
class NotedLeases final : public LeaseService {
 public:
  Claim claim(const TierKey& turn, const TierKey& entry) override {
    claimed.emplace_back(turn, entry);
    return {.status = LeaseStatus::kElsewhere, .lease = nullptr};
  }
  Claim claim_and_prefetch(const TierKey& turn, const TierKey& entry, std::span<const TierKey> keys,
                           MemoryBudget& /*room*/) override {
    looked_up.assign(keys.begin(), keys.end());
    return claim(turn, entry);
  }
  bool wait(std::uint32_t /*attempt*/, const std::stop_token& /*stop*/) override { return false; }

  std::vector<std::pair<TierKey, TierKey>> claimed;  // leases, and the entries written under them
  std::vector<TierKey> looked_up;                    // with the last claim
};

TEST(SharedAnswers, AClaimLooksUpTheFormsUnderWhichAnAnswerIsStored) {
  SharedWorld world;
  NotedLeases turns;
  AnsweringProcess one(world, &turns);
  ASSERT_TRUE(one.refresh());
  Question question(scope(1), "What  is a CACHE?");
  const auto claim = [&](MatchLevel up_to) {
    return one.archive->claim(question, "whole", up_to, one.archive->read_lease()).status;
  };
  EXPECT_EQ(claim(MatchLevel::kExact), LeaseStatus::kElsewhere);
  EXPECT_EQ(turns.looked_up, std::vector{turns.claimed.back().second});
  const auto claimed = turns.claimed.back();
  EXPECT_EQ(claim(MatchLevel::kCanonical), LeaseStatus::kElsewhere);
  EXPECT_EQ(turns.claimed.back(), claimed) << "the lease is of the exact text";
  ASSERT_GT(turns.looked_up.size(), 1U);
  EXPECT_EQ(turns.looked_up.front(), claimed.second);
  ASSERT_TRUE(one.put("What  is a CACHE?", "a").has_value());
  for (const TierKey& key : turns.looked_up) EXPECT_TRUE(world.tier.may_contain(key));
}

// A claim brings an answer that was read before; an erasure in between must hide it.
TEST(SharedAnswers, WhatWasErasedSinceTheClaimIsNotServed) {
  for (const bool refreshes : {false, true}) {
    Two two;
    ASSERT_TRUE(two.one.put("q", "a").has_value());
    Question question(scope(1), "q");
    const LookupRules rules{.serve = MatchLevel::kExact};
    const AnswerArchive::ReadLease before = two.other.archive->read_lease();
    EXPECT_TRUE(two.other.archive->restore_claimed(question, rules, {}, before).has_value());
    two.world.tier.after_get = [&] {  // as if it had been got before
      ASSERT_TRUE(two.one.erase_answer_to("q"));
      if (refreshes) two.refresh();
    };
    EXPECT_FALSE(two.other.archive->restore_claimed(question, rules, {}, before).has_value());
    two.refresh();
    EXPECT_FALSE(two.other.archive->restore_claimed(question, rules, {}, before).has_value())
        << "its lease is of another time";
  }
}

TEST(SharedAnswers, ALeaseIsKeyedByTheExactTextAndNamesItsEntry) {
  SharedWorld world;
  NotedLeases turns;
  AnsweringProcess one(world, &turns);
  AnsweringProcess other(world, &turns);
  ASSERT_TRUE(one.refresh() && other.refresh());
  const auto claimed = [&](const AnsweringProcess& process, const ScopeId& where,
                           const std::string& words, std::string_view form = "whole") {
    const auto claim = process.archive->claim(Question(where, words), form);
    EXPECT_EQ(claim.status, LeaseStatus::kElsewhere);
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
  pictured.loosest = MatchLevel::kCanonical;
  std::set<TierKey> names{first.first};
  EXPECT_TRUE(names.insert(claimed(one, scope(1), "Q").first).second);
  EXPECT_TRUE(names.insert(claimed(one, scope(2), "q").first).second);
  EXPECT_TRUE(names.insert(claimed(one, pictured, "q").first).second);
  const auto streamed = claimed(one, scope(1), "q", "stream");
  EXPECT_TRUE(names.insert(streamed.first).second);
  EXPECT_EQ(streamed.second, first.second) << "both answers use one key";
  world.servers.lose_all();
  ASSERT_TRUE(one.refresh());
  EXPECT_TRUE(names.insert(claimed(one, scope(1), "q").first).second) << "another generation";
}

TEST(SharedAnswers, WithoutALeaseToServeNothingIsClaimed) {
  SharedWorld world;
  testing::LeasesInMemory turns;
  AnsweringProcess one(world, &turns);
  const Question question(scope(1), "q");
  EXPECT_EQ(one.archive->claim(question, "whole").status, LeaseStatus::kUnavailable);
  ASSERT_TRUE(one.refresh());
  EXPECT_EQ(one.archive->claim(question, "whole").status, LeaseStatus::kAcquired);
  world.pass(kLease);
  EXPECT_EQ(one.archive->claim(question, "whole").status, LeaseStatus::kUnavailable);
  EXPECT_EQ(turns.claims, 1);
  const AnsweringProcess alone(world);
  EXPECT_FALSE(alone.archive->has_leases());
  EXPECT_EQ(alone.archive->claim(question, "whole").status, LeaseStatus::kUnavailable);
}

// A remote tier caches negative look-ups for a while.
TEST(SharedAnswers, RestoreAnewIgnoresCachedNegativeLookUps) {
  Two two;
  ASSERT_TRUE(two.one.put("q", "a", {.ttl = 10s}).has_value());
  two.world.tier.says_absent = true;
  Question question(scope(1), "q");
  EXPECT_FALSE(two.other.archive->restore(question).has_value());
  const auto found = two.other.archive->restore_uncached(question);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->answer.value().text, "a");
  EXPECT_EQ(found->steps.back().level, MatchLevel::kExact);
  EXPECT_EQ(two.other.cache->stats().entries, EntryCount(1));
  EXPECT_FALSE(two.other.archive->restore_uncached(question, {.min_fresh = 11s}).has_value());
  EXPECT_FALSE(two.other.archive->restore_uncached(Question(scope(1), "Q")).has_value())
      << "the exact text only";
  EXPECT_EQ(two.other.archive->stats().failed, 0U) << "a miss is no failure";
  ASSERT_TRUE(two.one.erase_answer_to("q"));
  EXPECT_FALSE(two.other.archive->restore_uncached(question).has_value());
  two.refresh();
  EXPECT_FALSE(two.other.archive->restore_uncached(question).has_value());
}

TEST(SharedAnswers, APollerKeepsRefreshing) {
  Two two;
  const PeriodicTask poller([&] { static_cast<void>(two.other.archive->refresh()); }, 1ms);
  while (two.other.cell->reads < 4) std::this_thread::yield();
}

}  // namespace
}  // namespace afterimage
