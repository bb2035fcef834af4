// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/answer_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "caches/answers/answer_cache_state.h"
#include "caches/answers/testing/kept_answers.h"
#include "caches/answers/testing/questions.h"
#include "testing/recording_policy.h"
#include "testing/seeds.h"

namespace afterimage {

struct AnswerCacheInside {
  static void flip_first_bit(AnswerCache& cache, Question question) {
    const MutexLock lock(cache.locked_->mutex);
    const AnswerCache::State& state = cache.locked_->state;
    const std::uint32_t place = state.forms.find(AnswerFormKey::exact(question)).value();
    const auto bytes = state.slots.at(place).payload->tensors().front().bytes();
    *const_cast<std::byte*>(bytes.data()) ^= std::byte{1};
  }
};

namespace {

using namespace std::chrono_literals;
using testing::answer;
using testing::scope;

using Fixture = testing::KeptAnswers;

constexpr const char* kQuestion = "What is the best way to see the dog?";
constexpr const char* kCanonicalVariant = "what's the best way to see the dog";
constexpr const char* kNearVariant = "What is best way to see dogs?";

TEST(AnswerCache, AnEmptyCacheMisses) {
  Fixture f;
  const AnswerLookup found = f.find(scope(1), kQuestion);
  EXPECT_FALSE(found.answer.has_value());
  ASSERT_EQ(found.steps.size(), 3U);
  for (const MatchStep& step : found.steps) EXPECT_EQ(step.verdict, Verdict::kMissed);
  for (const MatchLevel which : kMatchLevels) EXPECT_EQ(f.level(which).missed, 1U);
}

TEST(AnswerCache, ReturnsTheCompleteAnswer) {
  Fixture f;
  const Answer given{.text = "On the left.",
                     .finish_reason = "stop",
                     .model = "m",
                     .prompt_tokens = TokenCount(400),
                     .output_tokens = TokenCount(4),
                     .record = R"({"content":"On the left."})"};
  Question asked(scope(1), kQuestion);
  ASSERT_TRUE(f.cache->insert(asked, given, {.cost = 2s}).has_value());
  EXPECT_EQ(f.find(scope(1), kQuestion).answer, given);
  EXPECT_EQ(f.cache->stats().answer_time_saved, 2s);
}

TEST(AnswerCache, ServesFromTheStrictestMatchingLevel) {
  const struct {
    const char* name;
    const char* question;
    MatchLevel level;
  } kCases[] = {{"the same bytes", kQuestion, MatchLevel::kExact},
                {"typed otherwise", kCanonicalVariant, MatchLevel::kCanonical},
                {"worded otherwise", kNearVariant, MatchLevel::kNear}};
  for (const auto& c : kCases) {
    Fixture f;
    ASSERT_TRUE(f.put(kQuestion, "so").has_value());
    const AnswerLookup found = f.find(scope(1), c.question);
    ASSERT_TRUE(found.answer.has_value()) << c.name;
    EXPECT_EQ(found.steps.back().level, c.level) << c.name;
    EXPECT_EQ(found.steps.size(), static_cast<std::size_t>(c.level) + 1) << c.name;
    EXPECT_EQ(f.level(c.level).served, 1U) << c.name;
  }
}

TEST(AnswerCache, ReportsCandidateAgeAndTime) {
  Fixture f;
  ASSERT_TRUE(f.put(kQuestion, "so").has_value());
  f.clock.advance(5s);
  const MatchStep step = f.find(scope(1), kCanonicalVariant).steps.back();
  EXPECT_EQ(step.candidate, kQuestion);
  EXPECT_EQ(step.age, 5s);
  EXPECT_EQ(step.took, 0s) << "the manual clock did not advance";
  EXPECT_EQ(to_string(step.verdict), "served");
  EXPECT_EQ(to_string(step.level), "text:canonical");
}

TEST(AnswerCache, NeverMatchesAcrossScopes) {
  Fixture f;
  ASSERT_TRUE(f.put(scope(1), kQuestion, "so").has_value());
  for (const char* question : {kQuestion, kCanonicalVariant, kNearVariant}) {
    EXPECT_EQ(f.get(scope(2), question), "");
    ScopeId elsewhere = scope(1);
    elsewhere.space.bytes[5] = std::byte{1};
    EXPECT_EQ(f.get(elsewhere, question), "");
    ScopeId last_byte = scope(1);
    last_byte.key.bytes[31] ^= std::byte{1};
    EXPECT_EQ(f.get(last_byte, question), "") << "all 256 bits are compared";
  }
}

TEST(AnswerCache, WatchesLevelsBeyondTheAllowedOne) {
  Fixture f;
  ASSERT_TRUE(f.put(kQuestion, "so").has_value());
  EXPECT_EQ(f.get(kCanonicalVariant, {.serve = MatchLevel::kExact}), "");
  EXPECT_EQ(f.level(MatchLevel::kCanonical).missed, 0U) << "not looked up";

  const AnswerLookup watched =
      f.find(scope(1), kNearVariant, {.serve = MatchLevel::kCanonical, .watch = MatchLevel::kNear});
  EXPECT_FALSE(watched.answer.has_value());
  EXPECT_EQ(watched.steps.back().verdict, Verdict::kNotAllowed);
  EXPECT_EQ(watched.steps.back().candidate, kQuestion);
  EXPECT_EQ(f.level(MatchLevel::kNear).matched_not_used, 1U);
  EXPECT_EQ(f.level(MatchLevel::kNear).served, 0U);
  EXPECT_EQ(f.cache->stats().answer_time_saved, 0s);
}

TEST(AnswerCache, AsksWhetherItMayLoosenOnceNoExactAnswerServes) {
  Fixture f;
  ASSERT_TRUE(f.put(kQuestion, "so").has_value());
  int asked = 0;
  bool may = false;
  const auto finds = [&](const char* text) {
    Question question(scope(1), text);
    const auto may_loosen = [&] {
      ++asked;
      return may;
    };
    return f.cache->find(question, {}, may_loosen).answer.has_value();
  };
  EXPECT_TRUE(finds(kQuestion));
  EXPECT_EQ(asked, 0);
  EXPECT_FALSE(finds(kCanonicalVariant));
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(f.level(MatchLevel::kCanonical).missed, 0U) << "not looked up";
  may = true;
  EXPECT_TRUE(finds(kCanonicalVariant));
}

TEST(AnswerCache, DoesNotServeAboveMaxAge) {
  Fixture f;
  ASSERT_TRUE(f.put(kQuestion, "so").has_value());
  f.clock.advance(10s);
  EXPECT_EQ(f.get(kQuestion, {.max_age = 10s}), "so");
  const AnswerLookup found = f.find(scope(1), kQuestion, {.max_age = 10s - 1ns});
  EXPECT_EQ(found.steps.front().verdict, Verdict::kTooOld);
  EXPECT_FALSE(found.answer.has_value());
  EXPECT_EQ(f.get(kQuestion), "so") << "other rules may";
}

TEST(AnswerCache, DoesNotServeBelowMinFresh) {
  Fixture f;
  ASSERT_TRUE(f.put("timed", "so", {.ttl = 10s}).has_value());
  ASSERT_TRUE(f.put("no expiry", "so").has_value());
  f.clock.advance(3s);
  EXPECT_EQ(f.get("timed", {.min_fresh = 7s}), "so");
  const AnswerLookup found = f.find(scope(1), "timed", {.min_fresh = 7s + 1ns});
  EXPECT_EQ(found.steps.front().verdict, Verdict::kTooOld);
  EXPECT_FALSE(found.answer.has_value());
  EXPECT_EQ(f.get("no expiry", {.min_fresh = Duration::max()}), "so");
}

TEST(AnswerCache, ReportsTheRemainingTtl) {
  Fixture f;
  ASSERT_TRUE(f.put("timed", "so", {.ttl = 10s}).has_value());
  ASSERT_TRUE(f.put("no expiry", "so").has_value());
  f.clock.advance(3s);
  EXPECT_EQ(f.find(scope(1), "timed").left, 7s);
  EXPECT_EQ(f.find(scope(1), "no expiry").left, std::nullopt);
  EXPECT_EQ(f.find(scope(1), "never asked").left, std::nullopt);
}

TEST(AnswerCache, ExpiresAtItsTtlHoweverOftenItIsUsed) {
  Fixture f;
  ASSERT_TRUE(f.put(kQuestion, "so", {.cost = 1s, .ttl = 3s}).has_value());
  f.clock.advance(3s - 1ns);
  EXPECT_EQ(f.get(kQuestion), "so");
  f.clock.advance(1ns);
  const AnswerLookup found = f.find(scope(1), kQuestion);
  ASSERT_EQ(found.steps.size(), 3U);
  EXPECT_EQ(found.steps.front().verdict, Verdict::kExpired);
  EXPECT_EQ(found.steps[1].verdict, Verdict::kMissed) << "removed";
  EXPECT_EQ(f.budget.used(), 0_B);
  EXPECT_EQ(f.cache->stats().expired, 1U);
}

TEST(AnswerCache, TtlBorderCases) {
  Fixture f;
  f.clock.advance(1s);
  ASSERT_TRUE(f.put("none", "a", {.ttl = 0s}).has_value());
  ASSERT_TRUE(f.put("less than none", "a", {.ttl = -1s}).has_value());
  ASSERT_TRUE(f.put("no expiry", "a", {.ttl = Duration::max()}).has_value());
  EXPECT_EQ(f.get("none"), "");
  EXPECT_EQ(f.get("less than none"), "");
  EXPECT_EQ(f.get("no expiry"), "a");
}

TEST(AnswerCache, EvictingRemovesExpiredEntriesFirst) {
  Fixture f;
  ASSERT_TRUE(f.put("one", "a", {.ttl = 1s}).has_value());
  ASSERT_TRUE(f.put("two", "b", {.ttl = 2s}).has_value());
  ASSERT_TRUE(f.put("ever", "c").has_value());
  f.clock.advance(1s);
  EXPECT_GT(f.cache->evict_bytes(1_B), 0_B);
  EXPECT_EQ(f.cache->stats().expired, 1U);
  EXPECT_EQ(f.get("two"), "b");
  EXPECT_EQ(f.get("ever"), "c");
}

TEST(AnswerCache, ReplacesTheSameQuestionAndServesTheNewestOfALooserForm) {
  Fixture f;
  ASSERT_TRUE(f.put(kQuestion, "old").has_value());
  ASSERT_TRUE(f.put(kQuestion, "new").has_value());
  EXPECT_EQ(f.cache->stats().entries, EntryCount(1));
  EXPECT_EQ(f.get(kQuestion), "new");
  ASSERT_TRUE(f.put(kCanonicalVariant, "newest").has_value());
  EXPECT_EQ(f.get(kQuestion), "new") << "its exact text";
  EXPECT_EQ(f.get("What's the best way to see the dog ?"), "newest");
  Question typed(scope(1), kCanonicalVariant);
  EXPECT_TRUE(f.cache->erase(typed));
  EXPECT_FALSE(f.cache->erase(typed));
  EXPECT_EQ(f.get(kCanonicalVariant), "") << "the older entry lost this form: a miss";
  EXPECT_EQ(f.get(kQuestion), "new");
}

TEST(AnswerCache, RetractsAHitThatWasNotUsed) {
  Fixture f;
  ASSERT_TRUE(f.put(kQuestion, "so").has_value());
  const AnswerLookup served = f.find(scope(1), kQuestion);
  f.cache->retract_hit(served);
  EXPECT_EQ(f.level(MatchLevel::kExact).served, 0U);
  EXPECT_EQ(f.level(MatchLevel::kExact).matched_not_used, 1U);
  EXPECT_EQ(f.cache->stats().answer_time_saved, 0s);
  f.cache->retract_hit(AnswerLookup{});
}

TEST(AnswerCache, DamagedBytesAreAMissCountedAndRemoved) {
  Fixture f;
  ASSERT_TRUE(f.put(kQuestion, "so").has_value());
  AnswerCacheInside::flip_first_bit(*f.cache, Question(scope(1), kQuestion));
  EXPECT_EQ(f.peek(scope(1), kQuestion).steps.front().verdict, Verdict::kDamaged);
  EXPECT_EQ(f.cache->stats().damaged, 0U) << "peek does not remove it";
  const AnswerLookup found = f.find(scope(1), kQuestion);
  EXPECT_FALSE(found.answer.has_value());
  EXPECT_EQ(found.steps.front().verdict, Verdict::kDamaged);
  EXPECT_EQ(f.level(MatchLevel::kExact).matched_not_used, 1U);
  EXPECT_EQ(f.cache->stats().damaged, 1U);
  EXPECT_EQ(f.budget.used(), 0_B);
}

// Each hit of an answer of 4 MB verified and copied it, under the cache's lock.
TEST(AnswerCache, ALargeAnswerIsVerifiedAndCopiedOnceWhileHitsUseIt) {
  Fixture f;
  Question asked(scope(1), kQuestion);
  Answer given = answer("so");
  given.record = std::string(AnswerCache::kLeastShared, 'r');
  ASSERT_TRUE(f.cache->insert(asked, given, {}).has_value());
  const auto find = [&] { return f.cache->find(asked, {.share = true}); };
  EXPECT_EQ(f.cache->find(asked).answer, given) << "is copied unless the rules say so";
  AnswerLookup first = find();
  ASSERT_NE(first.shared, nullptr);
  EXPECT_EQ(*first.shared, given);
  EXPECT_EQ(first.answer->text, "so");
  EXPECT_EQ(first.answer->record, "");
  EXPECT_EQ(find().shared, first.shared) << "is not copied again";
  // The bytes in the cache are not read again, so nobody gets what becomes of them.
  AnswerCacheInside::flip_first_bit(*f.cache, asked);
  EXPECT_EQ(find().shared, first.shared);
  EXPECT_EQ(f.level(MatchLevel::kExact).served, 4U);
  first = {};
  EXPECT_EQ(find().steps.front().verdict, Verdict::kDamaged) << "nobody has a copy any more";
  EXPECT_EQ(f.cache->stats().damaged, 1U);
}

TEST(AnswerCache, WhatHitsShareIsNotFoundAfterAnErasureOrAReplacement) {
  Fixture f;
  Question asked(scope(1), kQuestion);
  Answer given = answer("so");
  given.record = std::string(AnswerCache::kLeastShared, 'r');
  ASSERT_TRUE(f.cache->insert(asked, given, {}).has_value());
  const LookupRules rules{.max_age = 5s, .share = true};
  const AnswerLookup before = f.cache->find(asked, rules);
  ASSERT_NE(before.shared, nullptr);
  f.clock.advance(6s);
  EXPECT_EQ(f.cache->find(asked, rules).steps.front().verdict, Verdict::kTooOld);
  given.record.back() = 's';
  ASSERT_TRUE(f.cache->insert(asked, given, {}).has_value());
  EXPECT_EQ(*f.cache->find(asked, rules).shared, given);
  ASSERT_TRUE(f.cache->erase(asked));
  EXPECT_FALSE(f.cache->find(asked, rules).answer.has_value());
}

TEST(AnswerCache, RejectsIncompleteAnswersAndBadTags) {
  Fixture f;
  Question asked(scope(1), kQuestion);
  Answer cut = answer("half an");
  cut.finish_reason = "length";
  EXPECT_EQ(f.cache->insert(asked, cut, {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(f.put(kQuestion, "so", {.tags = {std::string("a\0b", 3)}}).error().code,
            ErrorCode::kInvalidArgument);
  MemoryBudget budget(1_KiB);
  const ManualClock clock;
  EXPECT_FALSE(AnswerCache::create({.max_entries = EntryCount(0)}, budget, clock).has_value());
  EXPECT_EQ(f.cache->stats().insertions, 0U);
}

TEST(AnswerCache, ServesAPartialAnswerToItsOwnWordsOnly) {
  Fixture f;
  Question asked(scope(1), kQuestion);
  ASSERT_TRUE(f.cache->insert(asked, answer("whole"), {}).has_value());
  ASSERT_TRUE(f.find(scope(1), kCanonicalVariant).answer.has_value());
  Answer cut = answer("half an");
  cut.finish_reason = "length";
  ASSERT_TRUE(f.cache->insert(asked, cut, {.keep_partial = true}).has_value());
  EXPECT_EQ(f.find(scope(1), kQuestion).answer, cut);
  EXPECT_FALSE(f.find(scope(1), kCanonicalVariant).answer.has_value());
  EXPECT_FALSE(f.find(scope(1), kNearVariant).answer.has_value());
  // Nor to words that were found to be alike by other means.
  Question candidate(scope(1), kQuestion);
  const AnswerLookup proposed = f.cache->find_exact(candidate, {}, /*serve=*/true);
  EXPECT_FALSE(proposed.answer.has_value());
  EXPECT_EQ(proposed.steps.front().verdict, Verdict::kNotAllowed);
  f.cache->check_invariants();
  ASSERT_TRUE(f.cache->insert(asked, answer("whole"), {}).has_value());
  EXPECT_TRUE(f.find(scope(1), kCanonicalVariant).answer.has_value());
}

TEST(AnswerCache, EvictsForSpaceAndNeverExceedsTheBudget) {
  Fixture f(4_KiB);
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(f.put("question " + std::to_string(i), std::string(100, 'x')).has_value());
    ASSERT_LE(f.budget.used(), 4_KiB);
  }
  EXPECT_LE(f.budget.peak(), 4_KiB);
  EXPECT_GT(f.cache->stats().evictions, 100U);
}

TEST(AnswerCache, AnAnswerThatCannotFitEvictsNothing) {
  Fixture f(4_KiB);
  ASSERT_TRUE(f.put("one", "a").has_value());
  EXPECT_EQ(f.put("two", std::string(5000, 'x')).error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(f.put("one", std::string(5000, 'x')).error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(f.get("one"), "a");

  const auto others = f.budget.reserve(Bytes(4096 - 512)).value();
  EXPECT_EQ(f.put("two", std::string(400, 'x')).error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(f.get("one"), "a") << "evicting it would not have been enough";
  EXPECT_EQ(f.cache->stats().refused_no_space, 3U);
}

TEST(AnswerCache, ReplacingEvictsNoOtherEntry) {
  Fixture f(1_KiB, {.max_entries = EntryCount(2)});
  ASSERT_TRUE(f.put("one", "a").has_value());
  ASSERT_TRUE(f.put("two", "b").has_value());
  ASSERT_TRUE(f.put("two", std::string(500, 'x')).has_value()) << "fits in place of the old one";
  EXPECT_EQ(f.get("one"), "a");
  EXPECT_EQ(f.cache->stats().evictions, 0U);
}

TEST(AnswerCache, EnforcesMaxEntries) {
  Fixture f(1_MiB, {.max_entries = EntryCount(2)});
  for (const char* question : {"one", "two", "three"})
    ASSERT_TRUE(f.put(question, "a").has_value());
  EXPECT_EQ(f.cache->stats().entries, EntryCount(2));
  EXPECT_EQ(f.get("three"), "a");
}

TEST(AnswerCache, EvictsExpiredEntriesFirst) {
  Fixture f(1_MiB, {.max_entries = EntryCount(2)});
  ASSERT_TRUE(f.put("good", "a").has_value());
  ASSERT_TRUE(f.put("over", "b", {.ttl = 1s}).has_value());
  f.clock.advance(1s);
  ASSERT_TRUE(f.put("new", "c").has_value());
  EXPECT_EQ(f.get("good"), "a");
  EXPECT_EQ(f.cache->stats().evictions, 0U);
}

TEST(AnswerCache, EvictsBytesAndTrimsToALoweredBudget) {
  Fixture f(4_KiB);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(f.put("q" + std::to_string(i), "a").has_value());
  const Bytes before = f.budget.used();
  const Bytes freed = f.cache->evict_bytes(1_B);
  EXPECT_GT(freed, 0_B);
  EXPECT_EQ(f.budget.used(), before - freed);
  f.budget.set_capacity(512_B);
  f.cache->trim_to_budget();
  EXPECT_LE(f.budget.used(), 512_B);
  const Bytes rest = f.budget.used();
  EXPECT_GT(rest, 0_B) << "evicts no more than requested";
  EXPECT_EQ(f.cache->evict_bytes(1_MiB), rest);
}

TEST(AnswerCache, ServesNoNearMatchAboutMedia) {
  Fixture f;
  ScopeId pictured = scope(1);
  pictured.loosest = MatchLevel::kCanonical;
  ASSERT_TRUE(f.put(pictured, kQuestion, "so").has_value());
  EXPECT_EQ(f.get(pictured, kCanonicalVariant), "so");
  const AnswerLookup near = f.find(pictured, kNearVariant);
  EXPECT_FALSE(near.answer.has_value());
  EXPECT_EQ(near.steps.back().verdict, Verdict::kNotAllowed);
  EXPECT_EQ(near.steps.back().candidate, kQuestion);
  EXPECT_EQ(f.level(MatchLevel::kNear).matched_not_used, 1U);
}

/// An answer of 4,000 bytes.
bool put_page(AnswerCache& cache, int n, const AnswerFacts& facts) {
  Question question(scope(1), "q" + std::to_string(n));
  const Answer answer{.text = std::string(4000, 'x'), .finish_reason = "stop"};
  return cache.insert(question, answer, facts).has_value();
}

TEST(AnswerCache, CachesOfOneBudgetEvictTheLeastWorth) {
  const ManualClock clock;
  MemoryBudget budget(64_KiB);
  SharedBudget shared(budget);
  const auto dear = AnswerCache::create({.shared = &shared}, budget, clock).value();
  const auto cheap = AnswerCache::create({.shared = &shared}, budget, clock).value();
  shared.join(*dear);
  shared.join(*cheap);
  const auto put = [](AnswerCache& cache, int n, Duration cost) {
    return put_page(cache, n, {.cost = cost});
  };
  for (int n = 0; n < 30; ++n) ASSERT_TRUE(put(*cheap, n, 1ms));
  const Bytes full = cheap->stats().resident;
  for (int n = 0; n < 5; ++n) ASSERT_TRUE(put(*dear, n, 10s)) << "the other cache evicts";
  EXPECT_EQ(dear->stats().entries, EntryCount(5));
  EXPECT_LT(cheap->stats().resident, full);
  for (int n = 30; n < 60; ++n) ASSERT_TRUE(put(*cheap, n, 1ms));
  EXPECT_EQ(dear->stats().entries, EntryCount(5)) << "the expensive answers stay";
  shared.block_admission(true);
  EXPECT_FALSE(put(*dear, 9, 10s));
  EXPECT_EQ(dear->stats().blocked, 1U);
  Question there(scope(1), "q1");
  EXPECT_TRUE(dear->find(there).answer.has_value());
  shared.block_admission(false);
  EXPECT_TRUE(put(*dear, 9, 10s));
}

TEST(AnswerCache, ExpiredAnswersGoBeforeEntriesOfOtherCaches) {
  ManualClock clock;
  MemoryBudget budget(64_KiB);
  SharedBudget shared(budget);
  const auto brief = AnswerCache::create({.shared = &shared}, budget, clock).value();
  const auto cheap = AnswerCache::create({.shared = &shared}, budget, clock).value();
  shared.join(*brief);
  shared.join(*cheap);
  for (int n = 0; n < 7; ++n) ASSERT_TRUE(put_page(*brief, n, {.cost = 10s, .ttl = 1s}));
  clock.advance(1s);
  for (int n = 0; n < 12; ++n) ASSERT_TRUE(put_page(*cheap, n, {.cost = 1ms}));
  EXPECT_EQ(brief->stats().entries, EntryCount(0));
  EXPECT_EQ(cheap->stats().entries, EntryCount(12));
  EXPECT_EQ(cheap->stats().evictions, 0U);
}

TEST(AnswerCache, ReportsEachUseOnceWithTheMeasuredCost) {
  const auto log = std::make_shared<testing::RecordingPolicy::Log>();
  AnswerCacheOptions options;
  options.policy = std::make_unique<testing::RecordingPolicy>(log);
  Fixture f(1_MiB, std::move(options));
  ASSERT_TRUE(f.put(kQuestion, "so", {.cost = 7s}).has_value());
  EXPECT_EQ(log->take(), (std::vector<std::string>{"request", "insert a"}));
  EXPECT_EQ(log->facts["a"].cost, 7s);
  EXPECT_EQ(log->facts["a"].bytes, f.budget.used());
  // Uses are reported in batches: when full, or before any other call.
  f.get(kNearVariant);
  f.get(kNearVariant);
  EXPECT_EQ(log->take(), std::vector<std::string>{});
  EXPECT_TRUE(f.cache->eviction_candidate().has_value());
  EXPECT_EQ(log->take(), (std::vector<std::string>{"request", "touch a", "touch a"}));
  for (int i = 0; i < 64; ++i) f.get(kNearVariant);
  EXPECT_EQ(log->take().size(), 65U);
  f.get(kNearVariant, {.serve = MatchLevel::kExact, .watch = MatchLevel::kNear});
  EXPECT_EQ(log->take(), std::vector<std::string>{}) << "an unused match is not reported";
  Question asked(scope(1), kQuestion);
  f.cache->erase(asked);
  EXPECT_EQ(log->take(), std::vector<std::string>{"erase a"});
}

TEST(AnswerCache, ManyThreadsFindTheirOwnAnswers) {
  Fixture f(16_KiB);
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&f, t] {
      Rng rng(t + 1);
      for (int i = 0; i < 2'000; ++i) {
        const unsigned where = static_cast<unsigned>(rng.below(3));
        const std::string question = "question " + std::to_string(rng.below(20));
        const std::string expected = question + " in " + std::to_string(where);
        if (rng.chance(0.3)) {
          EXPECT_TRUE(f.put(scope(where), question, expected).has_value());
        } else if (rng.chance(0.02)) {
          f.cache->evict_bytes(1_KiB);
        } else if (rng.chance(0.02)) {
          for (const AnswerEntry& entry : f.cache->entries({.words = "1"}, 5)) {
            EXPECT_TRUE(entry.question.contains('1'));
            (void)f.cache->pin(entry.id, rng.chance(0.5));
          }
        } else if (rng.chance(0.02)) {
          f.cache->erase({.scope = scope(where).key});
        } else {
          const std::string got = f.get(scope(where), question);
          EXPECT_TRUE(got.empty() || got == expected);
        }
      }
    });
  }
  threads.clear();
  f.cache->check_invariants();
}

}  // namespace
}  // namespace afterimage
