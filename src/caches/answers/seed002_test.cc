// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Regression tests for the known bugs of the original prototype's semantic cache (DESIGN.md lists
// them); those that concern a single file are in that file's test.
#include <gtest/gtest.h>

#include <thread>

#include "afterimage/answer_once.h"
#include "afterimage/identity.h"
#include "caches/answers/testing/questions.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::answer;
using testing::scope;

constexpr const char* kAsked = "Is the cap on the bottle?";
constexpr const char* kTyped = "is the cap on the bottle";

struct Fixture {
  std::string get(const ScopeId& where, const std::string& text, const LookupRules& rules = {}) {
    Question question(where, text);
    return cache->find(question, rules).answer.value_or(Answer{}).text;
  }
  void put(const ScopeId& where, const std::string& text, const std::string& said,
           const AnswerFacts& facts = {.cost = 1s}) {
    Question question(where, text);
    ASSERT_TRUE(cache->insert(question, answer(said), facts).has_value());
  }
  std::uint64_t served() const {
    std::uint64_t sum = 0;
    for (const MatchLevelStats& level : cache->stats().levels) sum += level.served;
    return sum;
  }

  MemoryBudget budget{1_MiB};
  ManualClock clock;
  std::unique_ptr<AnswerCache> cache = AnswerCache::create({}, budget, clock).value();
};

/// The scope of one user's message with one picture.
Scope picture_scope(unsigned picture) {
  ScopeMedia media;
  media.content.bytes[0] = static_cast<std::byte>(picture);
  Scope scope;
  scope.messages = {{.role = Role::kUser, .parts = {media, QuestionSlot{}}}};
  scope.sampling = {{"temperature", "0"}, {"max_tokens", "64"}};
  return scope;
}

Namespace model(const std::string& name, const std::string& chat_template = "t") {
  return Namespace::of({.model = name,
                        .weights_epoch = "1",
                        .encoder = "e",
                        .adapter = "",
                        .chat_template = chat_template,
                        .kv_dtype = DType::kF32},
                       TenantId("acme"), Secret{})
      .value();
}

// A dry run counted matches as hits although the model ran every time.
TEST(Seed002, s06_AWatchedMatchIsNoHit) {
  Fixture f;
  f.put(scope(1), kAsked, "yes");
  const LookupRules dry{.serve = MatchLevel::kExact, .watch = MatchLevel::kNear};
  EXPECT_EQ(f.get(scope(1), kTyped, dry), "");
  EXPECT_EQ(f.served(), 0U);
  EXPECT_EQ(f.cache->stats().levels[1].matched_not_used, 1U);
  EXPECT_EQ(f.cache->stats().answer_time_saved, 0s);
}

// An unusable match was reported as a hit.
TEST(Seed002, s07_AnUnusableMatchIsNoHit) {
  Fixture f;
  f.put(scope(1), kAsked, "yes");
  Question question(scope(1), kAsked);
  f.cache->retract_hit(f.cache->find(question));
  EXPECT_EQ(f.served(), 0U);
  EXPECT_EQ(f.cache->stats().answer_time_saved, 0s);
}

// The text layers ignored image, model, template and sampling.
TEST(Seed002, s10_TheSameTextInAnotherScopeIsAnotherQuestion) {
  Fixture f;
  const ScopeId here = identify(picture_scope(1), model("m"));
  f.put(here, kAsked, "yes");
  EXPECT_EQ(f.get(identify(picture_scope(1), model("m")), kAsked), "yes");
  Scope warmer = picture_scope(1);
  warmer.sampling["temperature"] = "0.7";
  Scope longer = picture_scope(1);
  longer.sampling["max_tokens"] = "128";
  const struct {
    const char* name;
    ScopeId where;
  } kCases[] = {{"image", identify(picture_scope(2), model("m"))},
                {"model", identify(picture_scope(1), model("m2"))},
                {"template", identify(picture_scope(1), model("m", "t2"))},
                {"temperature", identify(warmer, model("m"))},
                {"max_tokens", identify(longer, model("m"))}};
  for (const auto& c : kCases) {
    for (const char* text : {kAsked, kTyped}) EXPECT_EQ(f.get(c.where, text), "") << c.name;
  }
}

// Entries were added before the answer existed, and stayed when generation failed.
TEST(Seed002, s12_NoEntryExistsWithoutAnAnswer) {
  Fixture f;
  AnswerOnce front(*f.cache, f.clock);
  Question question(scope(1), kAsked);
  const auto failed = front.get_or_answer(question, {}, [&]() -> Result<AnswerOnce::Generated> {
    EXPECT_EQ(f.cache->stats().entries, EntryCount(0)) << "while it is being generated";
    return fail(ErrorCode::kUnavailable, "the model is gone");
  });
  EXPECT_FALSE(failed.has_value());
  EXPECT_EQ(f.get(scope(1), kAsked), "");
  EXPECT_EQ(f.budget.used(), 0_B);
}

// Only some layers were persisted; after a restart their indices pointed to wrong entries.
TEST(Seed002, s13_AllFormsOfAnEntryAreAddedAndRemovedTogether) {
  Fixture f;
  f.put(scope(1), kAsked, "yes");
  f.cache->erase(AnswerFilter{});
  for (const char* text : {kAsked, kTyped}) EXPECT_EQ(f.get(scope(1), text), "");
  f.cache->check_invariants();
}

// Every insertion rewrote the index file, without a lock.
TEST(Seed002, s16_TwoWritersLoseNothing) {
  Fixture f;
  {
    std::vector<std::jthread> writers;
    for (unsigned writer = 0; writer < 2; ++writer) {
      writers.emplace_back([&f, writer] {
        for (unsigned i = 0; i < 500; ++i) f.put(scope(writer), std::to_string(i), "yes");
      });
    }
  }
  EXPECT_EQ(f.cache->stats().entries, EntryCount(1000));
  f.cache->check_invariants();
}

// An image check was added to one layer; the text layers had none.
TEST(Seed002, s25_EveryLevelIsBoundToTheImage) {
  Fixture f;
  const auto on_every_level = [](unsigned picture) {
    ScopeId id = identify(picture_scope(picture), model("m"));
    id.loosest = MatchLevel::kNear;
    return id;
  };
  f.put(on_every_level(1), "What's the best way to see the dog?", "there");
  const ScopeId other = on_every_level(2);
  for (const char* text :
       {"What's the best way to see the dog?", "what is the best way to see the dog",
        "What is best way to see dogs?"}) {
    EXPECT_EQ(f.get(other, text), "");
    EXPECT_NE(f.get(on_every_level(1), text), "");
  }
}

// No eviction, no time to live, no invalidation, no tenant.
TEST(Seed002, s26_EntriesAreBoundedExpireAndCanBeErased) {
  MemoryBudget budget(2_KiB);
  ManualClock clock;
  const auto cache = AnswerCache::create({}, budget, clock).value();
  for (int i = 0; i < 100; ++i) {
    Question question(scope(1), "question " + std::to_string(i));
    ASSERT_TRUE(cache->insert(question, answer("yes"), {.ttl = 1h, .tags = {"doc"}}).has_value());
  }
  EXPECT_LE(budget.peak(), 2_KiB);
  EXPECT_GT(cache->stats().evictions, 0U);
  EXPECT_GT(cache->erase(AnswerFilter{.tag = "doc"}).entries.value(), 0U);
  EXPECT_EQ(budget.used(), 0_B);
}

}  // namespace
}  // namespace afterimage
