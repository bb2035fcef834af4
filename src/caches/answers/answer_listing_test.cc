// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "afterimage/answer_cache.h"
#include "caches/answers/testing/kept_answers.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::KeptAnswers;
using testing::scope;

const TenantId kAnn("ann");
const TenantId kBob("bob");

std::vector<std::string> questions_of(const std::vector<AnswerEntry>& entries) {
  std::vector<std::string> questions;
  for (const AnswerEntry& entry : entries) questions.push_back(entry.question);
  return questions;
}

/// Bytes charged for one of these short answers.
Bytes one_entry() {
  const KeptAnswers f;
  EXPECT_TRUE(f.put("q0", "a").has_value());
  return f.budget.used();
}

AnswerUsage usage_of(const KeptAnswers& f, const TenantId& owner) {
  const auto usages = f.cache->owner_usages();
  const auto found = std::ranges::find(usages, owner, &AnswerUsage::owner);
  return found == usages.end() ? AnswerUsage() : *found;
}

TEST(AnswerEntries, AnEntryListsAllMetadata) {
  KeptAnswers f;
  ASSERT_TRUE(
      f.put("What is it?", "a", {.cost = 2s, .ttl = 10s, .tags = {"doc:1", ""}, .owner = kAnn})
          .has_value());
  f.clock.advance(4s);
  f.get("What is it?");
  f.get("what is it");
  const auto listed = f.cache->entries({}, 10);
  ASSERT_EQ(listed.size(), 1U);
  const AnswerEntry& entry = listed.front();
  EXPECT_EQ(entry.id, f.find(scope(1), "What is it?").steps.back().entry);
  EXPECT_EQ(entry.question, "What is it?");
  EXPECT_EQ(entry.scope, scope(1));
  EXPECT_EQ(entry.age, 4s);
  EXPECT_EQ(entry.left, 6s);
  EXPECT_EQ(entry.bytes, f.budget.used());
  EXPECT_EQ(entry.uses, 2U);
  EXPECT_EQ(entry.cost, 2s);
  EXPECT_EQ(entry.tags, (std::vector<std::string>{"doc:1", ""}));
  EXPECT_FALSE(entry.pinned);
  EXPECT_EQ(entry.owner, kAnn);
  f.clock.advance(7s);
  EXPECT_EQ(f.cache->entries({}, 10).front().left, 0s) << "expired, not removed yet";
}

TEST(AnswerEntries, AFilterMatchesAllItsFields) {
  KeptAnswers f;
  ScopeId elsewhere = scope(2);
  elsewhere.space.bytes[0] = std::byte{9};
  ASSERT_TRUE(f.put("The Dog", "a", {.tags = {"doc:1", "doc:2"}, .owner = kAnn}).has_value());
  f.clock.advance(1s);
  ASSERT_TRUE(f.put("the cat", "b", {.tags = {"doc:22"}, .owner = kBob}).has_value());
  ASSERT_TRUE(f.put(elsewhere, "the dogs", "c", {.owner = kAnn}).has_value());
  const struct {
    const char* name;
    AnswerFilter filter;
    std::vector<std::string> expected;
  } kCases[] = {
      {"nothing: all", {}, {"The Dog", "the cat", "the dogs"}},
      {"an entry", {.entry = f.id("the cat")}, {"the cat"}},
      {"no entry", {.entry = AnswerEntryId{99}}, {}},
      {"none", {.entry = AnswerEntryId{}}, {}},
      {"a space", {.space = elsewhere.space}, {"the dogs"}},
      {"a scope", {.scope = scope(1).key}, {"The Dog", "the cat"}},
      {"a tag", {.tag = "doc:2"}, {"The Dog"}},
      {"a tag must match in full", {.tag = "doc"}, {}},
      {"an owner", {.owner = kAnn}, {"The Dog", "the dogs"}},
      {"an owner that has nothing", {.owner = TenantId("an")}, {}},
      {"words in any case", {.words = "DOG"}, {"The Dog", "the dogs"}},
      {"words across others", {.words = "e c"}, {"the cat"}},
      {"words longer than any", {.words = "the dogs and more"}, {}},
      {"older", {.older_than = 1s - 1ns}, {"The Dog"}},
      {"no older", {.older_than = 1s}, {}},
      {"two at once", {.owner = kAnn, .words = "dogs"}, {"the dogs"}},
      {"an entry that is another's", {.entry = f.id("the cat"), .owner = kAnn}, {}},
  };
  for (const auto& c : kCases) {
    const auto listed = f.cache->entries(c.filter, 100);
    EXPECT_EQ(questions_of(listed), c.expected) << c.name;
    AnswerCount sum;
    for (const AnswerEntry& entry : listed) {
      sum += {.entries = EntryCount(1), .bytes = entry.bytes};
    }
    EXPECT_EQ(f.cache->count(c.filter), sum) << c.name;
  }
}

TEST(AnswerEntries, ErasesExactlyWhatCountReports) {
  KeptAnswers f;
  ASSERT_TRUE(f.put("one", "a", {.tags = {"doc:1"}}).has_value());
  ASSERT_TRUE(f.put("two", "b", {.tags = {"doc:1"}}).has_value());
  ASSERT_TRUE(f.put("three", "c").has_value());
  const AnswerCount counted = f.cache->count({.tag = "doc:1"});
  EXPECT_EQ(counted.entries, EntryCount(2));
  EXPECT_EQ(f.cache->stats().entries, EntryCount(3)) << "a dry run";
  EXPECT_EQ(f.cache->erase({.tag = "doc:1"}), counted);
  EXPECT_EQ(f.get("one"), "");
  EXPECT_EQ(f.get("two"), "");
  EXPECT_EQ(f.get("three"), "c");
  EXPECT_EQ(f.cache->stats().erased, 2U);
  EXPECT_EQ(f.cache->erase({.tag = "doc:1"}), AnswerCount());
  f.cache->erase(AnswerFilter{});
  EXPECT_EQ(f.budget.used(), 0_B);
}

TEST(AnswerEntries, PagesAreOrderedAndCompleteAcrossSlices) {
  const KeptAnswers f(16_MiB);
  constexpr std::size_t kMany = 3000;
  for (std::size_t i = 0; i < kMany; ++i) {
    ASSERT_TRUE(f.put("q" + std::to_string(i), "a").has_value());
  }
  EXPECT_TRUE(f.cache->entries({}, 0).empty());
  std::vector<AnswerEntry> all;
  for (AnswerEntryId after;;) {
    const auto page = f.cache->entries({}, 700, after);
    if (page.empty()) break;
    EXPECT_LE(page.size(), 700U);
    after = page.back().id;
    all.insert(all.end(), page.begin(), page.end());
  }
  ASSERT_EQ(all.size(), kMany);
  for (std::size_t i = 0; i < kMany; ++i) EXPECT_EQ(all[i].question, "q" + std::to_string(i));
  EXPECT_EQ(f.cache->entries({}, kMany + 1).size(), kMany);
  EXPECT_EQ(f.cache->count({}).entries, EntryCount(kMany));
  EXPECT_EQ(f.cache->count({.words = "Q2999"}).entries, EntryCount(1)) << "the last entry";
  EXPECT_EQ(f.cache->erase({.scope = scope(1).key}).entries, EntryCount(kMany));
}

TEST(AnswerEntries, ANewAnswerToTheSameTextIsANewEntry) {
  const KeptAnswers f;
  ASSERT_TRUE(f.put("one", "a").has_value());
  const AnswerEntryId old = f.id("one");
  ASSERT_TRUE(f.put("one", "b").has_value());
  EXPECT_GT(f.id("one"), old);
  EXPECT_TRUE(f.cache->entries({.entry = old}, 1).empty());
}

TEST(AnswerPeek, ReturnsWhatFindWouldWithoutSideEffects) {
  KeptAnswers f;
  const auto same = [](const AnswerLookup& a, const AnswerLookup& b) {
    const auto steps = [](const MatchStep& x, const MatchStep& y) {
      return x.level == y.level && x.verdict == y.verdict && x.candidate == y.candidate &&
             x.entry == y.entry && x.age == y.age;
    };
    return a.answer == b.answer && a.saved == b.saved && a.left == b.left &&
           std::ranges::equal(a.steps, b.steps, steps);
  };
  ASSERT_TRUE(f.put("What is the dog?", "a", {.cost = 1s, .ttl = 5s}).has_value());
  const LookupRules narrow{.serve = MatchLevel::kExact, .watch = MatchLevel::kNear};
  for (const Duration later : {1s, 5s}) {  // served; then expired, on every match level at once
    for (const LookupRules& rules : {LookupRules{}, narrow, LookupRules{.max_age = 0s}}) {
      for (const char* question : {"What is the dog?", "what's the dog", "never asked"}) {
        const AnswerCacheStats before = f.cache->stats();
        const AnswerLookup seen = f.peek(scope(1), question, rules);
        EXPECT_EQ(f.cache->stats().answer_time_saved, before.answer_time_saved);
        EXPECT_EQ(f.cache->stats().entries, before.entries) << "nothing is removed";
        for (std::size_t level = 0; level < kMatchLevels.size(); ++level) {
          const MatchLevelStats now = f.cache->stats().levels[level];
          EXPECT_EQ(now.served, before.levels[level].served);
          EXPECT_EQ(now.matched_not_used, before.levels[level].matched_not_used);
          EXPECT_EQ(now.missed, before.levels[level].missed);
        }
        EXPECT_TRUE(same(seen, f.find(scope(1), question, rules))) << question;
      }
    }
    f.clock.advance(later);
  }
  ASSERT_TRUE(f.put("What is the dog?", "a", {.cost = 1s, .ttl = 5s}).has_value());
  const auto uses = f.cache->entries({}, 1).front().uses;
  f.clock.advance(5s);
  const AnswerLookup over = f.peek(scope(1), "What is the dog?");
  ASSERT_EQ(over.steps.size(), 3U);
  EXPECT_EQ(over.steps[0].verdict, Verdict::kExpired);
  EXPECT_EQ(over.steps[1].verdict, Verdict::kMissed) << "find would have removed it";
  EXPECT_EQ(f.cache->entries({}, 1).front().uses, uses);
  EXPECT_TRUE(same(over, f.find(scope(1), "What is the dog?")));
}

TEST(AnswerPins, NeverEvictsAPinnedAnswer) {
  const Bytes one = one_entry();
  const KeptAnswers f(Bytes(one.value() * 4));
  ASSERT_TRUE(f.put("q0", "a").has_value());
  ASSERT_TRUE(f.cache->pin(f.id("q0"), true).value());
  for (int i = 1; i < 50; ++i) ASSERT_TRUE(f.put("q" + std::to_string(i % 9 + 1), "a").has_value());
  EXPECT_EQ(f.get("q0"), "a");
  EXPECT_EQ(f.cache->evict_bytes(1_MiB), Bytes(one.value() * 3));
  EXPECT_EQ(f.get("q0"), "a");
  EXPECT_FALSE(f.cache->eviction_candidate().has_value());
  EXPECT_EQ(f.cache->stats().pinned, (AnswerCount{EntryCount(1), one}));
  EXPECT_TRUE(f.cache->entries({}, 1).front().pinned);

  ASSERT_TRUE(f.cache->pin(f.id("q0"), true).value()) << "pinning twice is harmless";
  ASSERT_TRUE(f.cache->pin(f.id("q0"), false).value());
  EXPECT_EQ(f.cache->stats().pinned, AnswerCount());
  EXPECT_EQ(f.cache->evict_bytes(1_MiB), one);
}

TEST(AnswerPins, PinnedAnswersExpireAndCanBeErased) {
  KeptAnswers f;
  ASSERT_TRUE(f.put("timed", "a", {.ttl = 1s}).has_value());
  ASSERT_TRUE(f.put("erased", "a", {.tags = {"doc"}}).has_value());
  ASSERT_TRUE(f.cache->pin(f.id("timed"), true).value());
  ASSERT_TRUE(f.cache->pin(f.id("erased"), true).value());
  EXPECT_EQ(f.cache->erase({.tag = "doc"}).entries, EntryCount(1));
  f.clock.advance(1s);
  EXPECT_EQ(f.get("timed"), "");
  EXPECT_EQ(f.cache->stats().pinned, AnswerCount());
  EXPECT_FALSE(f.cache->pin(AnswerEntryId{1}, true).value()) << "there is no such entry";
}

TEST(AnswerPins, PinsAtMostHalfOfBudgetAndEntries) {
  const Bytes one = one_entry();
  KeptAnswers f(Bytes(one.value() * 5));
  for (const char* question : {"q0", "q1", "q2"}) ASSERT_TRUE(f.put(question, "a").has_value());
  EXPECT_TRUE(f.cache->pin(f.id("q0"), true).has_value());
  EXPECT_TRUE(f.cache->pin(f.id("q1"), true).has_value());
  const auto refused = f.cache->pin(f.id("q2"), true);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoSpace);

  const KeptAnswers few(1_MiB, {.max_entries = EntryCount(3)});
  for (const char* question : {"q0", "q1"}) ASSERT_TRUE(few.put(question, "a").has_value());
  EXPECT_TRUE(few.cache->pin(few.id("q0"), true).has_value());
  EXPECT_EQ(few.cache->pin(few.id("q1"), true).error().code, ErrorCode::kNoSpace);
  for (int i = 2; i < 9; ++i) ASSERT_TRUE(few.put("q" + std::to_string(i), "a").has_value());
  EXPECT_EQ(few.get("q0"), "a");
}

TEST(AnswerPins, ASmallerBudgetUnpinsTheOldest) {
  const Bytes one = one_entry();
  KeptAnswers f(Bytes(one.value() * 8));
  for (const char* question : {"q0", "q1", "q2", "q3"}) {
    ASSERT_TRUE(f.put(question, "a").has_value());
    ASSERT_TRUE(f.cache->pin(f.id(question), true).has_value());
  }
  f.budget.set_capacity(Bytes(one.value() * 4));
  EXPECT_EQ(f.cache->trim_to_budget(), 0_B) << "everything fits, pinned or not";
  EXPECT_EQ(f.cache->stats().unpinned, 2U);
  EXPECT_EQ(f.cache->stats().pinned.entries, EntryCount(2));
  f.budget.set_capacity(Bytes(one.value() * 2));
  f.cache->trim_to_budget();
  EXPECT_LE(f.budget.used(), f.budget.capacity());
  EXPECT_EQ(f.get("q3"), "a") << "the newest";
}

TEST(AnswerPins, AReplacementInheritsThePin) {
  const Bytes one = one_entry();
  const KeptAnswers f(Bytes(one.value() * 4));
  ASSERT_TRUE(f.put("q0", "a").has_value());
  ASSERT_TRUE(f.cache->pin(f.id("q0"), true).has_value());
  ASSERT_TRUE(f.put("q0", "b").has_value());
  EXPECT_EQ(f.cache->stats().pinned, (AnswerCount{EntryCount(1), one}));
  f.cache->evict_bytes(1_MiB);
  EXPECT_EQ(f.get("q0"), "b");

  const auto larger = f.put("q0", std::string(one.value() * 2, 'x'));
  ASSERT_FALSE(larger.has_value()) << "more than half would be pinned";
  EXPECT_EQ(larger.error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(f.get("q0"), "b") << "so the old one stays";
}

TEST(AnswerPins, AnAnswerMustFitBesidesThePinned) {
  const Bytes one = one_entry();
  const KeptAnswers f(Bytes(one.value() * 4));
  for (const char* question : {"q0", "q1", "q2"}) ASSERT_TRUE(f.put(question, "a").has_value());
  ASSERT_TRUE(f.cache->pin(f.id("q0"), true).has_value());
  const auto refused = f.put("q3", std::string(one.value() * 3, 'x'));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(f.cache->stats().entries, EntryCount(3)) << "nothing was evicted for it";
}

TEST(AnswerQuotas, AnOwnerOverQuotaLosesItsOwnLeastRecentlyUsed) {
  const KeptAnswers f;
  const AnswerFacts anns{.owner = kAnn, .quota = {.entries = EntryCount(3)}};
  ASSERT_TRUE(f.put("others", "x", {.owner = kBob}).has_value());
  for (const char* question : {"q0", "q1", "q2"}) {
    ASSERT_TRUE(f.put(question, "a", anns).has_value());
  }
  f.get("q0");
  f.get("q1");
  f.get("q0");
  ASSERT_TRUE(f.put("q3", "a", anns).has_value());
  EXPECT_EQ(f.id("q2"), AnswerEntryId()) << "never used";
  ASSERT_TRUE(f.put("q4", "a", anns).has_value());
  EXPECT_EQ(f.id("q1"), AnswerEntryId()) << "used before q0 and q3";
  ASSERT_TRUE(f.put("q5", "a", anns).has_value());
  EXPECT_EQ(f.id("q0"), AnswerEntryId()) << "used before q3 was inserted";
  EXPECT_EQ(questions_of(f.cache->entries({.owner = kAnn}, 9)),
            (std::vector<std::string>{"q3", "q4", "q5"}));
  EXPECT_EQ(f.get("others"), "x");
  EXPECT_EQ(f.cache->stats().evicted_for_quota, 3U);
}

TEST(AnswerQuotas, BytesCountLikeEntries) {
  const Bytes one = one_entry();
  KeptAnswers f;
  const AnswerFacts anns{.ttl = 1s, .owner = kAnn, .quota = {.bytes = Bytes(one.value() * 2)}};
  for (const char* question : {"q0", "q1", "q2"}) {
    ASSERT_TRUE(f.put(question, "a", anns).has_value());
    EXPECT_LE(usage_of(f, kAnn).kept.bytes, *anns.quota.bytes);
  }
  EXPECT_EQ(f.get("q0"), "");
  ASSERT_TRUE(f.put("q1", "b", anns).has_value()) << "the replaced answer is removed first";
  EXPECT_EQ(f.get("q2"), "a");
  f.clock.advance(1s);
  ASSERT_TRUE(f.put("q3", "a", anns).has_value());
  EXPECT_EQ(f.cache->stats().evicted_for_quota, 1U) << "expired entries go first";
}

TEST(AnswerQuotas, RejectsWhatCannotFitTheQuotaAndEvictsNothing) {
  const Bytes one = one_entry();
  const KeptAnswers f;
  const AnswerFacts anns{.owner = kAnn, .quota = {.bytes = Bytes(one.value() * 2)}};
  ASSERT_TRUE(f.put("q0", "a", anns).has_value());
  const auto larger = f.put("q1", std::string(one.value() * 2, 'x'), anns);
  ASSERT_FALSE(larger.has_value());
  EXPECT_EQ(larger.error().code, ErrorCode::kNoSpace);
  ASSERT_TRUE(f.cache->pin(f.id("q0"), true).has_value());
  ASSERT_TRUE(f.put("q2", "a", anns).has_value());
  const AnswerFacts less{.owner = kAnn, .quota = {.bytes = one}};
  EXPECT_FALSE(f.put("q3", "a", less).has_value()) << "the pinned answer uses the whole quota";
  EXPECT_EQ(usage_of(f, kAnn).kept.entries, EntryCount(2));
  EXPECT_TRUE(f.put("q0", "b", less).has_value()) << "replacing itself it fits";
  EXPECT_FALSE(f.put("q4", "a", {.owner = kBob, .quota = {.entries = EntryCount(0)}}).has_value());
  EXPECT_EQ(f.cache->stats().refused_over_quota, 3U);
}

TEST(AnswerQuotas, UsageIsPerOwnerAndEndsWithTheLastEntry) {
  const Bytes one = one_entry();
  KeptAnswers f;
  ASSERT_TRUE(f.put("q0", "a", {.ttl = 1s, .owner = kAnn}).has_value());
  ASSERT_TRUE(f.put("q1", "a", {.owner = kBob}).has_value());
  ASSERT_TRUE(f.cache->pin(f.id("q1"), true).has_value());
  const auto usages = f.cache->owner_usages();
  ASSERT_EQ(usages.size(), 2U);
  EXPECT_EQ(usages[0].owner, kAnn);
  EXPECT_EQ(usages[0].kept, (AnswerCount{EntryCount(1), one}));
  EXPECT_EQ(usages[0].pinned, AnswerCount());
  EXPECT_EQ(usages[1].owner, kBob);
  EXPECT_EQ(usages[1].pinned, (AnswerCount{EntryCount(1), one}));
  ASSERT_TRUE(f.put("q1", "b", {.owner = kAnn}).has_value()) << "replaces another's";
  EXPECT_EQ(usage_of(f, kBob).kept, AnswerCount());
  EXPECT_EQ(f.cache->stats().owners, EntryCount(1));
  f.clock.advance(1s);
  f.cache->erase({.owner = kAnn});
  EXPECT_TRUE(f.cache->owner_usages().empty());
}

TEST(AnswerQuotas, ManyOwnersAreListedInSlices) {
  const KeptAnswers f(16_MiB);
  for (int i = 0; i < 1500; ++i) {
    const std::string name = std::to_string(i);
    ASSERT_TRUE(f.put("q" + name, "a", {.owner = TenantId(name)}).has_value());
  }
  const auto usages = f.cache->owner_usages();
  EXPECT_EQ(usages.size(), 1500U);
  EXPECT_TRUE(std::ranges::is_sorted(usages, {}, &AnswerUsage::owner));
}

/// The obvious model: a list, searched linearly.
class ModelOfAnswers {
 public:
  struct Kept {
    unsigned where;
    std::string question;
    std::string text;
    Duration stored;
    Duration expires;
    std::string tag;
    TenantId owner;
    bool pinned = false;
    int used = 0;
  };

  std::optional<std::size_t> place_of(unsigned where, const std::string& question) const {
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      if (kept_[i].where == where && kept_[i].question == question) return i;
    }
    return std::nullopt;
  }
  bool put(Kept fresh, std::uint64_t quota, Duration now) {
    const auto old = place_of(fresh.where, fresh.question);
    fresh.pinned = old.has_value() && kept_[*old].pinned;
    const auto is_rest = [&](const Kept& kept) {
      return kept.owner == fresh.owner && (!old.has_value() || &kept != &kept_[*old]);
    };
    const auto pinned = std::ranges::count_if(
        kept_, [&](const Kept& kept) { return is_rest(kept) && kept.pinned; });
    if (static_cast<std::uint64_t>(pinned) + 1 > quota) return false;
    if (old.has_value()) kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(*old));
    const auto own = [&](const Kept& kept) { return kept.owner == fresh.owner; };
    while (static_cast<std::uint64_t>(std::ranges::count_if(kept_, own)) + 1 > quota) {
      const auto first = std::ranges::min_element(kept_, {}, &Kept::expires);
      if (first->expires <= now) {
        kept_.erase(first);
        continue;
      }
      auto least = kept_.end();
      for (auto it = kept_.begin(); it != kept_.end(); ++it) {
        if (own(*it) && !it->pinned && (least == kept_.end() || it->used < least->used)) least = it;
      }
      kept_.erase(least);
    }
    fresh.used = ++uses_;
    kept_.push_back(std::move(fresh));
    return true;
  }
  std::string get(unsigned where, const std::string& question, Duration now) {
    const auto place = place_of(where, question);
    if (!place.has_value()) return "";
    if (kept_[*place].expires <= now) {
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(*place));
      return "";
    }
    kept_[*place].used = ++uses_;
    return kept_[*place].text;
  }
  std::vector<Kept>& all() { return kept_; }

 private:
  std::vector<Kept> kept_;  // in order of insertion
  int uses_ = 0;
};

AnswerFilter some_filter(Rng& rng, Duration now) {
  AnswerFilter filter;
  if (rng.chance(0.3)) filter.scope = scope(static_cast<unsigned>(rng.below(3))).key;
  if (rng.chance(0.3)) filter.tag = "tag" + std::to_string(rng.below(4));
  if (rng.chance(0.3)) filter.owner = rng.chance(0.5) ? kAnn : kBob;
  if (rng.chance(0.3)) filter.words = "ION " + std::to_string(rng.below(10));
  if (rng.chance(0.3)) filter.older_than = now / 2;
  return filter;
}

bool model_admits(const AnswerFilter& filter, const ModelOfAnswers::Kept& kept, Duration now) {
  return (!filter.scope.has_value() || scope(kept.where).key == *filter.scope) &&
         (filter.tag.empty() || kept.tag == filter.tag) &&
         (filter.owner == TenantId() || kept.owner == filter.owner) &&
         (filter.words.empty() ||
          kept.question == "quest" + std::string("ion ") + filter.words.substr(4)) &&
         (!filter.older_than.has_value() || now - kept.stored > *filter.older_than);
}

TEST(AnswerCacheProperty, AgreesWithAnObviousModel) {
  testing::for_each_seed(100, [](Rng& rng) {
    KeptAnswers f;
    ModelOfAnswers model;
    for (int step = 0; step < 300; ++step) {
      const auto where = static_cast<unsigned>(rng.below(3));
      const std::string question = "question " + std::to_string(rng.below(10));
      const TenantId owner = rng.chance(0.5) ? kAnn : kBob;
      const Duration now = f.clock.now();
      switch (rng.below(9)) {
        case 0:
        case 1:
        case 2: {
          const Duration ttl{1 + rng.below(60'000'000'000)};  // distinct expiry times
          const std::string tag = "tag" + std::to_string(rng.below(4));
          const std::string text = std::to_string(step);
          const std::uint64_t quota = 1 + rng.below(12);
          const bool put = f.put(scope(where), question, text,
                                 {.ttl = ttl,
                                  .tags = {tag},
                                  .owner = owner,
                                  .quota = {.entries = EntryCount(quota)}})
                               .has_value();
          ASSERT_EQ(put, model.put({.where = where,
                                    .question = question,
                                    .text = text,
                                    .stored = now,
                                    .expires = now + ttl,
                                    .tag = tag,
                                    .owner = owner},
                                   quota, now))
              << step;
          break;
        }
        case 3: {
          const AnswerFilter filter = some_filter(rng, now);
          const AnswerCount counted = f.cache->count(filter);
          const auto admitted = [&](const auto& kept) { return model_admits(filter, kept, now); };
          if (rng.chance(0.5)) {
            ASSERT_EQ(counted.entries.value(),
                      static_cast<std::uint64_t>(std::ranges::count_if(model.all(), admitted)));
          } else {
            ASSERT_EQ(f.cache->erase(filter), counted);
            ASSERT_EQ(std::erase_if(model.all(), admitted), counted.entries.value()) << step;
          }
          break;
        }
        case 4: {
          Question asked(scope(where), question);
          const auto place = model.place_of(where, question);
          ASSERT_EQ(f.cache->erase(asked), place.has_value()) << step;
          if (place.has_value()) {
            model.all().erase(model.all().begin() + static_cast<std::ptrdiff_t>(*place));
          }
          break;
        }
        case 5: {
          const bool pinned = rng.chance(0.5);
          const auto place = model.place_of(where, question);
          const auto listed = f.cache->entries({.scope = scope(where).key, .words = question}, 2);
          ASSERT_EQ(listed.size(), place.has_value() ? 1U : 0U);
          if (!place.has_value()) break;
          ASSERT_TRUE(f.cache->pin(listed.front().id, pinned).value());
          model.all()[*place].pinned = pinned;
          break;
        }
        default: {
          f.clock.advance(std::chrono::milliseconds(rng.below(500)));
          const std::string seen = f.peek(scope(where), question).answer.value_or(Answer{}).text;
          ASSERT_EQ(f.get(scope(where), question), seen) << step;
          ASSERT_EQ(seen, model.get(where, question, f.clock.now())) << step;
        }
      }
      const auto listed = f.cache->entries({}, 100);
      ASSERT_EQ(listed.size(), model.all().size()) << step;
      for (std::size_t i = 0; i < listed.size(); ++i) {
        ASSERT_EQ(listed[i].question, model.all()[i].question) << step;
        ASSERT_EQ(listed[i].pinned, model.all()[i].pinned) << step;
        ASSERT_EQ(listed[i].owner, model.all()[i].owner) << step;
      }
      f.cache->check_invariants();
    }
  });
}

}  // namespace
}  // namespace afterimage
