// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/run_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foundation/platform/random.h"
#include "foundation/platform/testing/memory_files.h"
#include "lab/experiment/cache_folder.h"
#include "lab/experiment/experiment.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using testing::for_each_seed;
using ::testing::HasSubstr;

/// Counts how often it is asked.
class CountingOracle final : public SampleEngine {
 public:
  Result<Answer> answer(const Sample& sample, const std::string& prompt) override {
    ++asked;
    return OracleEngine().answer(sample, prompt);
  }
  [[nodiscard]] bool is_oracle() const override { return true; }
  std::size_t asked = 0;
};

constexpr const char* kFile = "kept/experiment.cache";
constexpr const char* kSettings = R"("chunk_source": "question", "similarity_threshold": 0.5,
    "prompt_template": "Q: {question}", "cache_dir": "kept")";

Sample sample(const std::string& id, const std::string& question, const std::string& answer) {
  return {.dataset_id = id, .question = question, .answer = answer};
}

struct Runs {
  Result<ExperimentReport> run(std::vector<Sample> samples, const std::string& more = "") {
    const auto spec =
        make_spec(R"({"name": "t", "model": "m", )" + std::string(kSettings) + more + "}");
    EXPECT_TRUE(spec.has_value());
    engine.asked = 0;
    return run_experiment(*spec, CacheMode::kLive, samples,
                          {roots, clock, engine, nullptr, &files});
  }
  testing::MemoryFiles files;
  ImageRoots roots{{}, files};
  ManualClock clock;
  CountingOracle engine;
};

const std::vector<Sample> kFirst{sample("a", "What color is the car?", "red"),
                                 sample("b", "Who wrote the letter?", "Ada")};

TEST(RunCache, TheNextRunStartsWithAnswersVectorsAndEvidence) {
  Runs runs;
  const ExperimentReport first =
      runs.run({sample("a", "What color is the car?", "red"),
                sample("b", "What is the color of the car there?", "red")},
               R"(, "similarity": "watch")")
          .value();
  EXPECT_EQ(first.reused->answers, 0U);
  EXPECT_EQ(first.reused->ignored, "");
  EXPECT_EQ(runs.engine.asked, 2U);
  const ExperimentReport second = runs.run({sample("c", "What color is the car?", "red")}).value();
  EXPECT_EQ(second.reused->answers, 2U);
  EXPECT_EQ(second.reused->vectors, 2U);
  EXPECT_EQ(second.reused->evidence, (Evidence{.right = 1, .wrong = 0}));
  EXPECT_EQ(runs.engine.asked, 0U);
  EXPECT_EQ(second.samples[0].source, "text:exact");
  // Also what a run has only taken over is kept.
  const ExperimentReport third = runs.run({}).value();
  EXPECT_EQ(third.reused->vectors, 2U);
  EXPECT_EQ(third.reused->evidence, second.reused->evidence);
}

TEST(RunCache, FindsSimilarQuestionsOfTheRunBefore) {
  Runs runs;
  ASSERT_TRUE(runs.run(kFirst).has_value());
  const ExperimentReport report =
      runs.run({sample("c", "What is the color of the car there?", "red")}).value();
  EXPECT_EQ(runs.engine.asked, 0U);
  EXPECT_EQ(report.samples[0].source, "text");
  EXPECT_EQ(report.samples[0].candidate, "What color is the car?");
}

TEST(RunCache, ADamagedFileIsIgnoredAndReplaced) {
  Runs runs;
  ASSERT_TRUE(runs.run(kFirst).has_value());
  const std::vector<std::byte> whole = runs.files.read(kFile, 1_MiB).value();
  for_each_seed(20, [&](Rng& rng) {
    std::vector<std::byte> damaged = whole;
    if (rng.chance(0.5)) {
      damaged.resize(rng.below(damaged.size()));
    } else {
      damaged[rng.below(damaged.size())] ^= std::byte{1};
    }
    ASSERT_TRUE(runs.files.replace(kFile, damaged).has_value());
    const ExperimentReport report = runs.run(kFirst).value();
    EXPECT_EQ(report.reused->answers, 0U);
    EXPECT_THAT(report.reused->ignored, HasSubstr(kFile));
    EXPECT_THAT(report.reused->ignored, HasSubstr("damaged"));
    EXPECT_EQ(runs.engine.asked, 2U);
    EXPECT_EQ(runs.files.read(kFile, 1_MiB).value(), whole);
  });
}

TEST(RunCache, AFileOfAnotherEngineEncoderOrLayerIsIgnored) {
  for (const char* other :
       {R"(, "engine": "reference")", R"(, "index_encoder": "http://a.org/v1/embeddings")",
        R"(, "embedding_hook": "prompt", "embedding_layers": ["prompt:384:0.9"])",
        R"(, "dataset": "llava150k")"}) {
    Runs runs;
    ASSERT_TRUE(runs.run(kFirst).has_value());
    const ExperimentReport report = runs.run(kFirst, other).value();
    EXPECT_EQ(report.reused->answers, 0U) << other;
    EXPECT_THAT(report.reused->ignored, HasSubstr("another experiment")) << other;
    EXPECT_EQ(runs.engine.asked, 2U) << other;
  }
}

TEST(RunCache, AnswersOfAnotherModelAreNotServed) {
  Runs runs;
  ASSERT_TRUE(runs.run(kFirst).has_value());
  ASSERT_TRUE(runs.run(kFirst, R"(, "max_tokens": 3)").has_value());
  EXPECT_EQ(runs.engine.asked, 2U) << "another scope";
}

TEST(RunCache, RefusesAFolderThatIsNoCache) {
  Runs runs;
  const std::vector<std::byte> letter(3);
  ASSERT_TRUE(runs.files.make_folder("kept").has_value());
  ASSERT_TRUE(runs.files.replace("kept/letter.txt", letter).has_value());
  const auto report = runs.run(kFirst);
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message, HasSubstr(kCacheSentinel));
  EXPECT_EQ(runs.engine.asked, 0U);
}

TEST(RunCache, VectorsOfOtherDimensionsAreIgnored) {
  Runs runs;
  ASSERT_TRUE(runs.run(kFirst).has_value());
  RunCache stored = run_cache_from(runs.files.read(kFile, 1_MiB).value()).value();
  stored.entries[1].candidates[0].candidates[0].vectors[0] = {1.0F};
  ASSERT_TRUE(runs.files.replace(kFile, to_bytes(stored)).has_value());
  const ExperimentReport report = runs.run(kFirst).value();
  EXPECT_THAT(report.reused->ignored, HasSubstr("dimensions"));
  EXPECT_EQ(report.reused->answers, 0U);
}

TEST(RunCache, BytesRoundTrip) {
  Runs runs;
  ASSERT_TRUE(runs.run(kFirst).has_value());
  const auto bytes = runs.files.read(kFile, 1_MiB).value();
  const RunCache cache = run_cache_from(bytes).value();
  EXPECT_EQ(cache.entries.size(), 2U);
  EXPECT_EQ(cache.entries[0].answer.answer.text, "red");
  EXPECT_EQ(to_bytes(cache), bytes);
}

}  // namespace
}  // namespace afterimage
