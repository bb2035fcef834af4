// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/similar_answers.h"

#include <gtest/gtest.h>

#include "caches/similarity/hashed_ngrams.h"

namespace afterimage {
namespace {

using std::chrono::milliseconds;

/// Takes as long as a test says.
class SlowEmbedder final : public Embedder {
 public:
  explicit SlowEmbedder(ManualClock& clock) : clock_(clock) {}
  [[nodiscard]] const std::string& name() const override { return ngrams_.name(); }
  [[nodiscard]] std::size_t dimensions() const override { return ngrams_.dimensions(); }
  [[nodiscard]] Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) override {
    ++asked;
    clock_.advance(takes);
    return ngrams_.embed(inputs);
  }
  int asked = 0;
  Duration takes = milliseconds(20);

 private:
  ManualClock& clock_;
  HashedNgrams ngrams_ = HashedNgrams::create().value();
};

/// Takes as long as a test says, and is sure.
class SlowVerifier final : public Verifier {
 public:
  explicit SlowVerifier(ManualClock& clock) : clock_(clock) {}
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Result<std::vector<float>> score(
      std::string_view /*question*/, std::span<const std::string_view> candidates) override {
    clock_.advance(takes);
    return std::vector<float>(candidates.size(), 1.0F);
  }
  Duration takes = milliseconds(20);

 private:
  ManualClock& clock_;
  std::string name_ = "slow";
};

class WorthAVector : public ::testing::Test {
 protected:
  /// Asks something new, and learns its answer if it got a vector. True: it did.
  bool ask(Duration answer_took) {
    Question question(scope, "What is number " + std::to_string(++number) + "?");
    const auto lookup = similar->find(question, {});
    if (!lookup.has_value()) return false;
    EXPECT_TRUE(
        cache->insert(question, {.text = "it", .finish_reason = "stop"}, {.cost = answer_took})
            .has_value());
    similar->learn(question, *lookup, "it", answer_took);
    return true;
  }
  int asked_with_vector(int count, Duration answer_took) {
    int with = 0;
    for (int i = 0; i < count; ++i) with += ask(answer_took) ? 1 : 0;
    return with;
  }

  ManualClock clock;
  MemoryBudget budget{64_MiB};
  std::unique_ptr<AnswerCache> cache = AnswerCache::create({}, budget, clock).value();
  std::unique_ptr<SlowEmbedder> made = std::make_unique<SlowEmbedder>(clock);
  SlowEmbedder& embedder = *made;
  std::unique_ptr<SimilarAnswers> similar =
      SimilarAnswers::create({.embedder = std::move(made), .embedder_waits = true}, *cache, budget,
                             clock)
          .value();
  ScopeId scope;
  int number = 0;
};

TEST_F(WorthAVector, EveryQuestionWhileAnswersTakeLonger) {
  EXPECT_EQ(asked_with_vector(200, milliseconds(25)), 200);
  EXPECT_EQ(similar->stats().not_worth, 0U);
}

TEST_F(WorthAVector, NearlyNoneWhileVectorsTakeLonger) {
  EXPECT_TRUE(ask(milliseconds(15))) << "what an answer costs is not known yet";
  EXPECT_EQ(asked_with_vector(128, milliseconds(15)), 2) << "to measure again";
  EXPECT_EQ(embedder.asked, 3);
  EXPECT_EQ(similar->stats().not_worth, 128U);
  EXPECT_EQ(similar->stats().not_embedded, 0U);
}

TEST_F(WorthAVector, EveryQuestionWhereAnswersCostMoney) {
  auto slow = std::make_unique<SlowEmbedder>(clock);
  similar = SimilarAnswers::create(
                {.embedder = std::move(slow), .embedder_waits = true, .only_if_faster = false},
                *cache, budget, clock)
                .value();
  EXPECT_EQ(asked_with_vector(128, milliseconds(15)), 128);
}

TEST_F(WorthAVector, IsFoundOutAgain) {
  EXPECT_EQ(asked_with_vector(40, milliseconds(15)), 1);
  embedder.takes = milliseconds(1);
  EXPECT_EQ(asked_with_vector(64, milliseconds(15)), 40) << "from the next measurement on";
}

TEST_F(WorthAVector, OneSlowVectorSaysLittle) {
  embedder.takes = milliseconds(1);
  EXPECT_EQ(asked_with_vector(20, milliseconds(15)), 20);
  embedder.takes = milliseconds(1'000);
  EXPECT_EQ(asked_with_vector(1, milliseconds(15)), 1);
  embedder.takes = milliseconds(1);
  EXPECT_EQ(asked_with_vector(20, milliseconds(15)), 20);
}

TEST_F(WorthAVector, TheVerifierCosts) {
  auto owned = std::make_unique<SlowVerifier>(clock);
  SlowVerifier& verifier = *owned;
  similar = SimilarAnswers::create(
                {.embedder = std::make_unique<HashedNgrams>(HashedNgrams::create().value()),
                 .verifier = std::move(owned),
                 .verifier_threshold = 0.5F,
                 .threshold = 0.0F},
                *cache, budget, clock)
                .value();
  EXPECT_TRUE(similar->waits());
  verifier.takes = milliseconds(14);
  // Numbers are vetoed: only a question without one is read.
  Question plain(scope, "What is the number?");
  const auto lookup = similar->find(plain, {});
  ASSERT_TRUE(lookup.has_value());
  ASSERT_TRUE(cache->insert(plain, {.text = "it", .finish_reason = "stop"}, {}).has_value());
  similar->learn(plain, *lookup, "it", milliseconds(15));
  const Question again(scope, "What is that number?");
  ASSERT_TRUE(similar->find(again, {}).has_value());
  EXPECT_EQ(asked_with_vector(40, milliseconds(15)), 40);
  verifier.takes = milliseconds(300);
  ASSERT_EQ(similar->find(again, {})->found.verification, Verification::kAccepted);
  for (int i = 0; i < 60; ++i) static_cast<void>(similar->find(again, {}));
  EXPECT_GT(similar->stats().not_worth, 0U) << "the fastest lately was slow, too";
}

// Regression: what waits for a worker was learnt, and written below memory, after its answer was erased.
TEST_F(WorthAVector, AQuestionWhoseAnswerWasErasedIsNotKept) {
  for (const bool is_erased : {true, false}) {
    Question question(scope, "What is it?");
    const auto lookup = similar->find(question, {});
    ASSERT_TRUE(lookup.has_value());
    ASSERT_TRUE(cache->insert(question, {.text = "it", .finish_reason = "stop"}, {}).has_value());
    if (is_erased) cache->erase(AnswerFilter{});
    similar->learn(question, *lookup, "it");
    EXPECT_EQ(similar->stats().level.entries, EntryCount(is_erased ? 0 : 1));
  }
}

TEST_F(WorthAVector, UnknownCostsChangeNothing) {
  EXPECT_EQ(asked_with_vector(100, Duration(0)), 100);
}

}  // namespace
}  // namespace afterimage
