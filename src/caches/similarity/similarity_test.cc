// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/similarity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <thread>

#include "caches/answers/testing/questions.h"
#include "caches/similarity/hashed_ngrams.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::answer;
using ::testing::ElementsAre;
using testing::scope;

constexpr const char* kAsked = "What is the color of the car?";
constexpr const char* kReworded = "What color is the car?";
constexpr std::size_t kDimensions = 256;

SimilarityOptions text_layer(SimilarityMode mode, float threshold = 0.6F) {
  SimilarityOptions options;
  options.layers = {{.name = "text", .dimensions = kDimensions, .threshold = threshold}};
  options.mode = mode;
  return options;
}

struct Fixture {
  explicit Fixture(SimilarityOptions options)
      : level(SimilarityLevel::create(std::move(options), *cache, budget, clock).value()) {}

  std::vector<Vector> vectors(const std::string& text) {
    return {embedder.embed_one(std::string_view(text)).value()};
  }
  SimilarityLookup find(const ScopeId& where, const std::string& text,
                        const LookupRules& rules = {}) {
    return level->find(Question(where, text), vectors(text), rules).value();
  }
  void put(const ScopeId& where, const std::string& text, const std::string& said,
           const AnswerFacts& facts = {.cost = 1s}) {
    Question question(where, text);
    ASSERT_TRUE(cache->insert(question, answer(said), facts).has_value());
    ASSERT_TRUE(level->insert(question, vectors(text)).has_value());
  }
  /// Looks up; if nothing is served the model answers `truth`.
  Verdict ask(const ScopeId& where, const std::string& text, const std::string& truth) {
    const SimilarityLookup found = find(where, text);
    level->learn(Question(where, text), found, answer(truth));
    return found.verdict;
  }

  MemoryBudget budget{16_MiB};
  ManualClock clock;
  std::unique_ptr<AnswerCache> cache = AnswerCache::create({}, budget, clock).value();
  HashedNgrams embedder = HashedNgrams::create(kDimensions).value();
  std::unique_ptr<SimilarityLevel> level;
};

TEST(Similarity, ServesANeighbourAboveTheThreshold) {
  Fixture f(text_layer(SimilarityMode::kThreshold));
  EXPECT_EQ(f.find(scope(1), kReworded).verdict, Verdict::kMissed);
  f.put(scope(1), kAsked, "red");
  f.clock.advance(3s);
  const SimilarityLookup found = f.find(scope(1), kReworded);
  EXPECT_EQ(found.verdict, Verdict::kServed);
  EXPECT_EQ(found.answer->text, "red");
  EXPECT_EQ(found.source, "text");
  EXPECT_EQ(found.proposals[*found.judged].candidate, kAsked);
  EXPECT_EQ(found.age, 3s);
  EXPECT_EQ(found.saved, 1s);
  EXPECT_EQ(f.level->stats().served, 1U);
  EXPECT_EQ(f.cache->stats().proposed.served, 1U);
  EXPECT_EQ(f.cache->stats().levels[0].served, 0U);
  EXPECT_EQ(f.cache->stats().answer_time_saved, 1s);
  // A served request asked no model, so there is no evidence.
  EXPECT_EQ(f.level->learn(Question(scope(1), kReworded), found, answer("red")), std::nullopt);
  EXPECT_EQ(f.level->stats().learned, Evidence{});
}

// Seed 10: the text layers reused the answer about one image for all images.
TEST(Similarity, NeverMatchesAnotherScope) {
  Fixture f(text_layer(SimilarityMode::kThreshold, 0.0F));
  f.put(scope(1), kAsked, "red");
  EXPECT_TRUE(f.find(scope(2), kAsked).proposals.empty());
  EXPECT_EQ(f.find(scope(2), kAsked).verdict, Verdict::kMissed);
}

TEST(Similarity, FindsNoNeighbourBelowTheThreshold) {
  Fixture f(text_layer(SimilarityMode::kThreshold, 0.999F));
  f.put(scope(1), kAsked, "red");
  EXPECT_TRUE(f.find(scope(1), kReworded).proposals.empty());
}

TEST(Similarity, ReportsVetoesAndServesNothing) {
  Fixture f(text_layer(SimilarityMode::kThreshold, 0.3F));
  f.put(scope(1), "How do I turn on dark mode?", "like so");
  const SimilarityLookup found = f.find(scope(1), "How do I turn off dark mode?");
  EXPECT_EQ(found.verdict, Verdict::kMissed);
  ASSERT_EQ(found.proposals.size(), 1U);
  EXPECT_THAT(found.proposals[0].vetoes, ElementsAre(Veto::kAntonym));
  EXPECT_EQ(f.level->stats().vetoed[static_cast<std::size_t>(Veto::kAntonym)], 1U);
  EXPECT_EQ(f.level->stats().missed, 1U);
}

TEST(Similarity, JudgesTheNextNeighbourAfterAVeto) {
  Fixture f(text_layer(SimilarityMode::kThreshold, 0.3F));
  f.put(scope(1), "How do I turn on the dark mode here?", "like so");
  f.put(scope(1), "How do I turn off the dark mode?", "like that");
  const SimilarityLookup found = f.find(scope(1), "How do I turn off the dark mode here?");
  EXPECT_EQ(found.answer->text, "like that");
}

// By vectors "cup" is nearer to "cap" than "where is" to "where do you see".
TEST(Similarity, OfSeveralTheOneWithTheSameWordsIsJudged) {
  Fixture f(text_layer(SimilarityMode::kThreshold, 0.3F));
  f.put(scope(1), "Where is the red cap?", "left");
  f.put(scope(1), "Where do you see the red cup?", "right");
  f.put(scope(1), "Where is the red cop?", "below");
  const SimilarityLookup found = f.find(scope(1), "Where is the red cup?");
  ASSERT_EQ(found.proposals.size(), 3U);
  const auto similar = [&](std::size_t i) { return found.proposals[i].similarity.front(); };
  EXPECT_LT(similar(0), similar(1));
  EXPECT_GE(similar(1), similar(2));
  EXPECT_EQ(found.judged, 0U);
  EXPECT_EQ(found.proposals[0].change, WordChange::kNone);
  EXPECT_EQ(found.answer->text, "right");
  // Without one, the most similar.
  EXPECT_EQ(f.find(scope(1), "Where is the red cap now?").answer->text, "left");
}

// Seed 6: a watched match is no hit.
TEST(Similarity, WatchModeServesNothingAndGathersEvidence) {
  Fixture f(text_layer(SimilarityMode::kWatch));
  f.put(scope(1), kAsked, "red");
  const SimilarityLookup found = f.find(scope(1), kReworded);
  EXPECT_EQ(found.verdict, Verdict::kNotAllowed);
  EXPECT_FALSE(found.answer.has_value());
  EXPECT_EQ(found.given->text, "red");
  EXPECT_EQ(f.level->stats().not_used, 1U);
  EXPECT_EQ(f.level->stats().served, 0U);
  EXPECT_EQ(f.cache->stats().answer_time_saved, 0s);
  EXPECT_EQ(f.level->learn(Question(scope(1), kReworded), found, answer("Red.")), true);
  EXPECT_EQ(f.level->learn(Question(scope(1), kReworded), found, answer("blue")), false);
  EXPECT_EQ(f.level->stats().learned, (Evidence{.right = 1, .wrong = 1}));
}

TEST(Similarity, ServesOnceTheEvidenceSuffices) {
  SimilarityOptions options = text_layer(SimilarityMode::kLearned);
  options.explore = 0.0;
  Fixture f(std::move(options));
  Verdict last = Verdict::kMissed;
  unsigned asked = 0;
  for (; last != Verdict::kServed && asked < 2000; ++asked) {
    f.put(scope(asked % 200), kAsked, "red");  // the reworded question exists in every scope
    last = f.ask(scope(asked % 200), kReworded, "red");
    ASSERT_TRUE(last == Verdict::kInsufficientEvidence || last == Verdict::kServed)
        << to_string(last);
  }
  EXPECT_GT(asked, 400U);  // an error budget of 1 % takes that much evidence
  EXPECT_LT(asked, 500U);
  const SimilarityLookup found = f.find(scope(7), kReworded);
  EXPECT_EQ(found.judgement->basis, Basis::kEverything);
  EXPECT_GE(found.judgement->right_at_least, 0.99);
  // No evidence of another kind.
  f.put(scope(7), "Does the dog chase the cat?", "yes");
  EXPECT_EQ(f.ask(scope(7), "Does the cat chase the dog?", "no"), Verdict::kInsufficientEvidence);
}

TEST(Similarity, NeverServesAnEntryThatWasWrong) {
  SimilarityOptions options = text_layer(SimilarityMode::kLearned);
  options.acceptance.error_budget = 0.2;
  options.explore = 1.0;  // every acceptable match is explored and yields evidence
  Fixture f(std::move(options));
  for (unsigned i = 1; i <= 60; ++i) {
    f.put(scope(i), kAsked, "red");
    f.ask(scope(i), kReworded, "red");
  }
  EXPECT_EQ(f.ask(scope(2), kReworded, "blue"), Verdict::kExplored);
  EXPECT_EQ(f.find(scope(2), kReworded).verdict, Verdict::kInsufficientEvidence);
  EXPECT_EQ(f.find(scope(2), kReworded).judgement->basis, Basis::kEntry);
  EXPECT_EQ(f.find(scope(1), kReworded).verdict, Verdict::kExplored);
}

TEST(Similarity, WithoutItsEvidenceNothingIsServedUntilThereIsMore) {
  SimilarityOptions options = text_layer(SimilarityMode::kLearned);
  options.acceptance.error_budget = 0.2;
  options.explore = 0;
  Fixture f(options);
  f.put(scope(1), kAsked, "red");
  const auto asked_until_served = [&] {
    int asked = 1;
    while (asked < 1'000 && f.ask(scope(1), kReworded, "red") != Verdict::kServed) ++asked;
    return asked;
  };
  const int first = asked_until_served();
  EXPECT_GT(first, 5);
  EXPECT_EQ(f.ask(scope(1), kReworded, "red"), Verdict::kServed);
  f.level->forget_evidence();
  EXPECT_EQ(asked_until_served(), first);
}

TEST(Similarity, KeepsExploring) {
  SimilarityOptions options = text_layer(SimilarityMode::kLearned);
  options.acceptance.error_budget = 0.2;
  options.explore = 0.1;
  Fixture f(std::move(options));
  f.put(scope(1), kAsked, "red");
  while (f.ask(scope(1), kReworded, "red") != Verdict::kServed) continue;
  unsigned explored = 0;
  for (int i = 0; i < 1000; ++i) {
    explored += f.ask(scope(1), kReworded, "red") == Verdict::kExplored ? 1 : 0;
  }
  EXPECT_GT(explored, 60U);
  EXPECT_LT(explored, 140U);
}

TEST(Similarity, NeverFindsWhatLeftTheAnswerCache) {
  Fixture f(text_layer(SimilarityMode::kThreshold));
  const auto gone = [&] {
    f.level->check_invariants();
    return f.level->stats().entries == EntryCount(0) && f.level->stats().resident == 0_B &&
           f.find(scope(1), kReworded).proposals.empty();
  };
  f.put(scope(1), kAsked, "red");
  Question question(scope(1), kAsked);
  EXPECT_TRUE(f.cache->erase(question));
  EXPECT_TRUE(gone());
  f.put(scope(1), kAsked, "red");
  f.cache->erase(AnswerFilter{});
  EXPECT_TRUE(gone());
  f.put(scope(1), kAsked, "red");
  f.cache->evict_bytes(1_MiB);
  EXPECT_TRUE(gone());
  f.put(scope(1), kAsked, "red", {.cost = 1s, .ttl = 1s});
  f.clock.advance(1s);
  EXPECT_EQ(f.find(scope(1), kReworded).verdict, Verdict::kExpired);
  EXPECT_TRUE(gone());
}

TEST(Similarity, DoesNotServeAnswersThatAreTooOld) {
  Fixture f(text_layer(SimilarityMode::kThreshold));
  f.put(scope(1), kAsked, "red");
  f.clock.advance(10s);
  const SimilarityLookup found = f.find(scope(1), kReworded, {.max_age = 5s});
  EXPECT_EQ(found.verdict, Verdict::kTooOld);
  EXPECT_FALSE(found.answer.has_value());
  EXPECT_FALSE(found.given.has_value());
}

// Seed 8: one layer was enough, so any two questions about similar images matched.
TEST(Seed002, s08_EveryLayerMustPassItsThreshold) {
  SimilarityOptions options = text_layer(SimilarityMode::kThreshold, 0.6F);
  options.layers.push_back({.name = "embedding:vision", .dimensions = 2, .threshold = 0.9F});
  Fixture f(std::move(options));
  const auto both = [&](const std::string& text, float x, float y) {
    return std::vector<Vector>{f.vectors(text)[0], {x, y}};
  };
  Question asked(scope(1), kAsked);
  ASSERT_TRUE(f.cache->insert(asked, answer("red"), {}).has_value());
  ASSERT_TRUE(f.level->insert(asked, both(kAsked, 1, 0)).has_value());
  const auto find = [&](const std::string& text, std::vector<Vector> vectors) {
    return f.level->find(Question(scope(1), text), vectors).value();
  };
  EXPECT_EQ(find(kReworded, both(kReworded, 1, 0)).verdict, Verdict::kServed);
  EXPECT_EQ(find(kReworded, both(kReworded, 0, 1)).verdict, Verdict::kMissed);
  const std::string other = "Who owns it?";
  EXPECT_EQ(find(other, both(other, 1, 0)).verdict, Verdict::kMissed);
  // A layer without a vector does not agree.
  EXPECT_EQ(find(kReworded, {f.vectors(kReworded)[0], {}}).verdict, Verdict::kMissed);
  EXPECT_EQ(f.level->stats().skipped, 1U);
  // The layer closest to its threshold is reported.
  EXPECT_EQ(find(kReworded, both(kReworded, 0.92F, 0.391918F)).source, "embedding:vision");
  EXPECT_EQ(find(kReworded, both(kReworded, 1, 0)).source, "embedding:vision");
}

TEST(Similarity, EachLayersNearestIsExamined) {
  SimilarityOptions options = text_layer(SimilarityMode::kThreshold, 0.6F);
  options.layers.push_back({.name = "embedding:vision", .dimensions = 2, .threshold = 0.9F});
  options.nearest = 1;
  Fixture f(std::move(options));
  const auto both = [](float angle_of_text, float angle_of_picture) {
    Vector text(kDimensions, 0.0F);
    text[0] = std::cos(angle_of_text);
    text[1] = std::sin(angle_of_text);
    return std::vector<Vector>{text, {std::cos(angle_of_picture), std::sin(angle_of_picture)}};
  };
  ASSERT_TRUE(f.level->insert(Question(scope(1), kAsked), both(0, 0.3F)).has_value());
  ASSERT_TRUE(f.level->insert(Question(scope(1), kReworded), both(0.3F, 0)).has_value());
  const auto found = f.level->find(Question(scope(1), "And now?"), both(0, 0)).value();
  EXPECT_EQ(found.proposals.size(), 2U);
}

// Seed 17: a vector of other dimensions ended the run.
TEST(Seed002, s17_AVectorOfOtherDimensionsIsAnErrorThatNamesTheLayer) {
  Fixture f(text_layer(SimilarityMode::kThreshold));
  const std::vector<Vector> shorter{Vector(kDimensions - 1, 0.0F)};
  const auto found = f.level->find(Question(scope(1), kAsked), shorter);
  EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(found.error().message, ::testing::HasSubstr("layer \"text\""));
  EXPECT_EQ(f.level->insert(Question(scope(1), kAsked), shorter).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(f.level->find(Question(scope(1), kAsked), {}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(f.level->stats().entries, EntryCount(0));
}

TEST(Similarity, RejectsDuplicateLayerNames) {
  Fixture f(text_layer(SimilarityMode::kWatch));
  const auto create = [&](std::vector<SimilarityLayer> layers) {
    SimilarityOptions options;
    options.layers = std::move(layers);
    return SimilarityLevel::create(std::move(options), *f.cache, f.budget, f.clock).error().code;
  };
  EXPECT_EQ(create({}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(create({{.name = "a", .dimensions = 0}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(create({{.name = "a", .dimensions = 2}, {.name = "a", .dimensions = 2}}),
            ErrorCode::kInvalidArgument);
}

TEST(Similarity, WithoutSpaceAQuestionIsNotFoundAndNothingLeaks) {
  MemoryBudget budget(1_KiB);  // a single vector is as large
  ManualClock clock;
  auto cache = AnswerCache::create({}, budget, clock).value();
  auto level =
      SimilarityLevel::create(text_layer(SimilarityMode::kThreshold), *cache, budget, clock)
          .value();
  auto embedder = HashedNgrams::create(kDimensions).value();
  for (int i = 0; i < 4; ++i) {
    Question question(scope(1), "question " + std::to_string(i));
    const std::vector<Vector> vectors{
        embedder.embed_one(std::string_view(question.text())).value()};
    ASSERT_TRUE(cache->insert(question, answer("red"), {}).has_value());
    const auto kept = level->insert(question, vectors);
    ASSERT_FALSE(kept.has_value());
    EXPECT_EQ(kept.error().code, ErrorCode::kNoSpace);
  }
  EXPECT_EQ(level->stats().refused_no_space, 4U);
  EXPECT_EQ(level->stats().entries, EntryCount(0));
  level->check_invariants();
}

TEST(Similarity, ConcurrentFindInsertAndEraseAgree) {
  Fixture f(text_layer(SimilarityMode::kThreshold, 0.5F));
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(t);
      for (int i = 0; i < 150; ++i) {
        const ScopeId where = scope(static_cast<unsigned>(rng.below(2)));
        const std::string n = std::to_string(rng.below(20));
        const std::string text = "What color has car number " + n + "?";
        Question question(where, text);
        if (rng.chance(0.4)) {
          (void)f.cache->insert(question, answer(n), {});
          (void)f.level->insert(question, f.vectors(text));
        } else if (rng.chance(0.2)) {
          f.cache->erase(question);
        } else {
          const auto found = f.find(where, text);
          if (found.answer.has_value()) EXPECT_EQ(found.answer->text, n);
        }
      }
    });
  }
  threads.clear();
  f.level->check_invariants();
  f.cache->check_invariants();
}

}  // namespace
}  // namespace afterimage
