// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/similarity_archive.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "afterimage/tier.h"
#include "caches/answers/testing/questions.h"
#include "caches/similarity/hashed_ngrams.h"
#include "testing/simulated_cell.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::answer;
using testing::scope;
using testing::SimulatedCell;
using testing::SimulatedServers;

constexpr std::size_t kDimensions = 256;
constexpr const char* kAsked = "What is the color of the car?";
constexpr const char* kReworded = "What color is the car?";

/// What all processes share.
struct SharedPlace {
  ManualClock clock;
  SimulatedServers servers;
  MemoryBudget stored{64_MiB};
  HostTier tier{stored};
};

/// Is always sure.
class SureVerifier final : public Verifier {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Result<std::vector<float>> score(
      std::string_view /*question*/, std::span<const std::string_view> candidates) override {
    return std::vector<float>(candidates.size(), 1.0F);
  }

 private:
  std::string name_ = "sure";
};

/// One process. Answers are in its memory only.
struct Process {
  explicit Process(SharedPlace& place, std::string layer = "text",
                   std::optional<float> verifier_threshold = std::nullopt)
      : place(place) {
    SimilarityOptions options;
    options.layers = {{.name = std::move(layer), .dimensions = kDimensions, .threshold = 0.6F}};
    options.mode = SimilarityMode::kLearned;
    options.acceptance.error_budget = 0.3;
    options.explore = 0.0;
    if (verifier_threshold.has_value()) {
      options.verifier = &verifier;
      options.verifier_threshold = *verifier_threshold;
    }
    options.bring = [this](Question& candidate, const LookupRules& /*rules*/) {
      ++brought;
      if (archived.empty()) return;
      EXPECT_TRUE(cache->insert(candidate, answer(archived), {.cost = 1s}).has_value());
    };
    level = SimilarityLevel::create(std::move(options), *cache, budget, place.clock).value();
    archive = std::make_unique<SimilarityArchive>(
        SimilarityArchiveDependencies{.level = *level,
                                      .cache = *cache,
                                      .tier = place.tier,
                                      .evidence = cell,
                                      .transfer = budget,
                                      .clock = place.clock,
                                      .secret = {},
                                      .erasures = [this] { return erasures; }});
  }
  std::vector<Vector> vectors(const std::string& text) {
    return {embedder.embed_one(std::string_view(text)).value()};
  }
  void put(const ScopeId& where, const std::string& text, const std::string& said) {
    Question question(where, text);
    ASSERT_TRUE(cache->insert(question, answer(said), {.cost = 1s}).has_value());
    ASSERT_TRUE(level->insert(question, vectors(text)).has_value());
    archive->keep(question, vectors(text), archive->erasures());
  }
  SimilarityLookup find(const ScopeId& where, const std::string& text) {
    archive->refresh(where);
    return level->find(Question(where, text), vectors(text)).value();
  }
  /// The model answers `truth` to `text`, also if the candidate's answer may be served.
  void learn(const ScopeId& where, const std::string& text, const std::string& truth) {
    SimilarityLookup found = find(where, text);
    found.answer.reset();
    const Question question(where, text);
    const auto right = level->learn(question, found, answer(truth));
    ASSERT_TRUE(right.has_value());
    archive->learned(question, found, *right);
  }

  SharedPlace& place;
  SureVerifier verifier;
  SimulatedCell cell{place.servers};
  MemoryBudget budget{16_MiB};
  std::unique_ptr<AnswerCache> cache = AnswerCache::create({}, budget, place.clock).value();
  HashedNgrams embedder = HashedNgrams::create(kDimensions).value();
  std::string archived = "red";  // what the answers' archive holds; empty: nothing
  int brought = 0;
  std::uint64_t erasures = 0;
  std::unique_ptr<SimilarityLevel> level;
  std::unique_ptr<SimilarityArchive> archive;
};

/// As many as the error budget of the test asks for.
void learn_enough(Process& process) {
  for (int i = 0; i < 12; ++i) process.learn(scope(1), kReworded, "red");
}

// Regression: a page that was read before the tier was swept was written back afterwards, with every question in it.
TEST(SimilarityArchive, NothingOfAPageComesBackAfterAnErasure) {
  SharedPlace place;
  Process one(place);
  one.put(scope(1), kAsked, "red");
  ASSERT_EQ(place.tier.stats().entries, EntryCount(1));
  Question later(scope(1), "What is the size of the car?");
  const std::uint64_t since = one.archive->erasures();
  ++one.erasures;
  one.archive->keep(later, one.vectors(later.text()), since);
  EXPECT_EQ(place.tier.stats().entries, EntryCount(0));
  one.archive->keep(later, one.vectors(later.text()), one.archive->erasures());
  EXPECT_EQ(place.tier.stats().entries, EntryCount(1)) << "with what is new only";
}

TEST(SimilarityArchive, ALaterProcessFindsCandidatesAndEvidence) {
  SharedPlace place;
  {
    Process first(place);
    first.put(scope(1), kAsked, "red");
    EXPECT_EQ(first.find(scope(1), kReworded).verdict, Verdict::kInsufficientEvidence);
    learn_enough(first);
    EXPECT_EQ(first.find(scope(1), kReworded).verdict, Verdict::kServed);
    EXPECT_EQ(first.brought, 0) << "the answer is in memory";
  }
  Process later(place);
  const SimilarityLookup found = later.find(scope(1), kReworded);
  EXPECT_EQ(found.verdict, Verdict::kServed);
  EXPECT_EQ(found.answer->text, "red");
  EXPECT_EQ(found.judgement->basis, Basis::kEntry);
  EXPECT_EQ(later.brought, 1);
  EXPECT_EQ(later.archive->stats().restored, 1U);
  later.level->check_invariants();
}

TEST(SimilarityArchive, EvidenceOfAllScopesIsShared) {
  SharedPlace place;
  Process one(place);
  Process other(place);
  one.put(scope(1), kAsked, "red");
  other.put(scope(2), kAsked, "blue");
  for (int i = 0; i < 6; ++i) one.learn(scope(1), kReworded, "red");
  EXPECT_EQ(other.find(scope(2), kReworded).verdict, Verdict::kInsufficientEvidence);
  for (int i = 0; i < 6; ++i) one.learn(scope(1), kReworded, "red");
  place.clock.advance(SimilarityArchive::kReadAgain);
  const SimilarityLookup found = other.find(scope(2), kReworded);
  EXPECT_EQ(found.verdict, Verdict::kServed);
  EXPECT_EQ(found.judgement->basis, Basis::kEverything);
  EXPECT_EQ(found.answer->text, "blue");
}

TEST(SimilarityArchive, EvidenceOfProcessesAtTheSameMomentIsAdded) {
  SharedPlace place;
  Process one(place);
  Process other(place);
  one.put(scope(1), kAsked, "red");
  other.put(scope(2), kAsked, "red");
  one.cell.before_replacing = [&] { other.learn(scope(2), kReworded, "red"); };
  one.learn(scope(1), kReworded, "red");
  const auto shared = shared_evidence_from(one.cell.read().value()->bytes).value();
  EXPECT_EQ(shared.table.total(), (Evidence{.right = 2, .wrong = 0}));
}

TEST(SimilarityArchive, AWrongAnswerEndsTheEvidenceOfEveryProcess) {
  SharedPlace place;
  Process one(place);
  Process other(place);
  one.put(scope(1), kAsked, "red");
  learn_enough(one);
  EXPECT_EQ(other.find(scope(1), kReworded).verdict, Verdict::kServed);
  one.archive->forget();
  EXPECT_EQ(one.find(scope(1), kReworded).verdict, Verdict::kInsufficientEvidence);
  place.clock.advance(SimilarityArchive::kReadAgain);
  EXPECT_EQ(other.find(scope(1), kReworded).verdict, Verdict::kInsufficientEvidence);
  Process later(place);
  EXPECT_EQ(later.find(scope(1), kReworded).verdict, Verdict::kInsufficientEvidence);
  EXPECT_EQ(later.archive->stats().epoch, 1U);
  learn_enough(later);
  place.clock.advance(SimilarityArchive::kReadAgain);
  EXPECT_EQ(other.find(scope(1), kReworded).verdict, Verdict::kServed) << "by new evidence";
}

TEST(SimilarityArchive, WhatWasLearntInAnEpochNotSeenYetEndsToo) {
  SharedPlace place;
  Process one(place);
  Process other(place);
  one.put(scope(1), kAsked, "red");
  EXPECT_EQ(other.find(scope(1), kReworded).verdict, Verdict::kInsufficientEvidence);
  one.archive->forget();
  learn_enough(one);
  other.archive->forget();
  place.clock.advance(SimilarityArchive::kReadAgain);
  EXPECT_EQ(one.find(scope(1), kReworded).verdict, Verdict::kInsufficientEvidence);
}

TEST(SimilarityArchive, WithoutServersAProcessGoesByWhatItKnowsAndSharesItLater) {
  SharedPlace place;
  Process one(place);
  one.put(scope(1), kAsked, "red");
  one.cell.unreachable = true;
  learn_enough(one);
  EXPECT_EQ(one.find(scope(1), kReworded).verdict, Verdict::kServed);
  EXPECT_GT(one.archive->stats().failed, 0U);
  one.cell.unreachable = false;
  place.clock.advance(SimilarityArchive::kReadAgain);
  static_cast<void>(one.find(scope(1), kReworded));
  const auto shared = shared_evidence_from(one.cell.read().value()->bytes).value();
  EXPECT_EQ(shared.table.total(), (Evidence{.right = 12, .wrong = 0}));
}

TEST(SimilarityArchive, DamagedEvidenceBeginsAnEpoch) {
  SharedPlace place;
  Process one(place);
  one.put(scope(1), kAsked, "red");
  learn_enough(one);
  place.servers.master->back() ^= 1;
  place.clock.advance(SimilarityArchive::kReadAgain);
  EXPECT_EQ(one.find(scope(1), kReworded).verdict, Verdict::kInsufficientEvidence);
  EXPECT_EQ(one.archive->stats().epoch, 1U);
}

TEST(SimilarityArchive, VectorsOfAnotherEmbedderAreNotFound) {
  SharedPlace place;
  Process one(place);
  one.put(scope(1), kAsked, "red");
  Process other(place, "other-text");
  EXPECT_TRUE(other.find(scope(1), kReworded).proposals.empty());
}

TEST(SimilarityArchive, EvidenceOfAnotherVerifierOrThresholdIsNotFound) {
  SharedPlace place;
  Process one(place, "text", 0.9F);
  one.put(scope(1), kAsked, "red");
  learn_enough(one);
  EXPECT_EQ(one.find(scope(1), kReworded).verdict, Verdict::kServed);
  Process same(place, "text", 0.9F);
  EXPECT_EQ(same.find(scope(1), kReworded).verdict, Verdict::kServed);
  Process looser(place, "text", 0.8F);
  EXPECT_TRUE(looser.find(scope(1), kReworded).proposals.empty());
  Process without(place);
  EXPECT_TRUE(without.find(scope(1), kReworded).proposals.empty());
}

TEST(SimilarityArchive, ACandidateWhoseAnswerIsGoneIsDropped) {
  SharedPlace place;
  Process one(place);
  one.put(scope(1), kAsked, "red");
  Process later(place);
  later.archived.clear();
  const SimilarityLookup found = later.find(scope(1), kReworded);
  EXPECT_EQ(found.verdict, Verdict::kMissed);
  EXPECT_FALSE(found.given.has_value());
  EXPECT_EQ(later.level->stats().entries, EntryCount(0));
}

TEST(SimilarityArchive, AnEvictedCandidateComesBack) {
  SharedPlace place;
  Process one(place);
  one.put(scope(1), kAsked, "red");
  one.cache->evict_bytes(1_MiB);
  EXPECT_EQ(one.level->stats().entries, EntryCount(0));
  place.clock.advance(SimilarityArchive::kReadAgain);
  EXPECT_EQ(one.find(scope(1), kReworded).given->text, "red");
  EXPECT_EQ(one.brought, 1);
}

TEST(SimilarityArchive, PagesFollowEachOther) {
  SharedPlace place;
  Process one(place);
  constexpr int kQuestions = 200;  // of a kilobyte: four pages
  const auto number = [](int i) {
    return "What is the number of house " + std::to_string(i) + "?";
  };
  for (int i = 0; i < kQuestions; ++i) one.put(scope(1), number(i), std::to_string(i));
  one.put(scope(1), number(3), "another");  // is written where it was
  Process later(place);
  later.archive->refresh(scope(1));
  EXPECT_EQ(later.level->stats().entries, EntryCount(kQuestions));
  EXPECT_EQ(later.archive->stats().restored, static_cast<std::uint64_t>(kQuestions));
  later.put(scope(1), number(kQuestions), "new");
  place.clock.advance(SimilarityArchive::kReadAgain);
  one.archive->refresh(scope(1));
  EXPECT_EQ(one.level->stats().entries, EntryCount(kQuestions + 1));
  EXPECT_EQ(one.archive->stats().restored, 1U);
  one.level->check_invariants();
}

}  // namespace
}  // namespace afterimage
