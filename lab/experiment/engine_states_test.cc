// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <numbers>

#include "foundation/platform/testing/memory_files.h"
#include "lab/datasets/dataset.h"
#include "lab/datasets/picture_samples.h"
#include "lab/experiment/experiment.h"

/// Latent and fusion layers made of a model's own states.
namespace afterimage {
namespace {

using ::testing::HasSubstr;

/// In degrees.
Vector direction(double angle) {
  const double radians = angle * std::numbers::pi / 180;
  return {static_cast<float>(std::cos(radians)), static_cast<float>(std::sin(radians))};
}

/// States are directions that a test chooses; answers are the data set's.
class DirectedEngine final : public SampleEngine {
 public:
  Result<Answer> answer(const Sample& sample, const std::string& prompt) override {
    return OracleEngine().answer(sample, prompt);
  }
  Result<std::vector<float>> state(const Sample& sample, const std::string& /*prompt*/,
                                   EngineState which) override {
    if (which == EngineState::kVision && !sample.content.has_value()) return Vector{};
    return direction(angles[{sample.dataset_id, which}]);
  }
  [[nodiscard]] bool shows_states() const override { return true; }
  std::map<std::pair<std::string, EngineState>, double> angles;
};

Sample about(std::size_t image, const std::string& id, const std::string& answer) {
  Rng rng(image);
  return {.dataset_id = id,
          .image_id = "p" + std::to_string(image),
          .question = "What colour is lamp " + id + "?",
          .answer = answer,
          .image = std::make_shared<const std::vector<std::byte>>(
              draw_scene(make_scene(2 * image, rng)).value())};
}

constexpr const char* kStates = R"(, "chunk_source": "question", "vetoes": false,
    "enable_semantic_text_cache": false, "enable_exact_text_cache": false, "embedding_hook": "engine")";

class EngineStates : public ::testing::Test {
 protected:
  Result<ExperimentReport> run(const std::string& settings, CacheMode mode = CacheMode::kDryRun) {
    const auto spec = make_spec(R"({"name": "t", "model": "m")" + settings + "}");
    EXPECT_TRUE(spec.has_value()) << (spec.has_value() ? "" : spec.error().message);
    attach_images(samples, roots);
    return run_experiment(*spec, mode, samples, {roots, clock, *engine});
  }
  /// What the second sample matched; empty: nothing.
  std::string matched(const std::string& settings) {
    return run(std::string(kStates) + settings).value().samples[1].source;
  }

  testing::MemoryFiles files;
  ImageRoots roots{{}, files};
  ManualClock clock;
  DirectedEngine directed;
  SampleEngine* engine = &directed;
  std::vector<Sample> samples{about(1, "a", "red"), about(1, "b", "red")};
};

TEST_F(EngineStates, EachLayerCanChangeAnOutcome) {
  directed.angles[{"b", EngineState::kPrompt}] = 20;  // cosine 0.94
  directed.angles[{"b", EngineState::kFusion}] = 40;  // cosine 0.77
  EXPECT_EQ(matched(R"(, "embedding_layers": ["prompt:2:0.9"])"), "embedding:prompt");
  EXPECT_EQ(matched(R"(, "embedding_layers": ["prompt:2:0.95"])"), "");
  EXPECT_EQ(matched(R"(, "embedding_layers": ["prompt:2:0.9", "fusion:2:0.7"])"),
            "embedding:fusion")
      << "the layer with the lowest similarity";
  EXPECT_EQ(matched(R"(, "embedding_layers": ["prompt:2:0.9", "fusion:2:0.8"])"), "");
}

TEST_F(EngineStates, AnotherImageIsNeverSimilarUnlessThatIsMeasured) {
  samples[1] = about(2, "b", "blue");
  const std::string layers = R"(, "embedding_layers": ["prompt:2:0.9", "vision:2:0.8"])";
  EXPECT_EQ(matched(layers), "");
  directed.angles[{"b", EngineState::kVision}] = 30;  // cosine 0.87
  EXPECT_EQ(matched(layers + R"(, "images": "similar")"), "embedding:vision");
  directed.angles[{"b", EngineState::kVision}] = 40;  // cosine 0.77
  EXPECT_EQ(matched(layers + R"(, "images": "similar")"), "");
  const auto live = run(kStates + layers + R"(, "images": "similar")", CacheMode::kLive);
  ASSERT_FALSE(live.has_value());
  EXPECT_THAT(live.error().message, HasSubstr("never served"));
}

TEST_F(EngineStates, AWrongAnswerAboutASimilarImageIsCounted) {
  samples[1] = about(2, "b", "blue");
  samples[1].question = samples[0].question;
  const auto report = run(R"(, "chunk_source": "question", "images": "similar")").value();
  EXPECT_EQ(report.samples[1].source, "text:exact");
  EXPECT_EQ(report.totals.wrong_matched, 1U);
  EXPECT_EQ(report.totals.served, 0U);
}

TEST_F(EngineStates, FusionComparesTheStateOfImageAndQuestion) {
  directed.angles[{"b", EngineState::kFusion}] = 30;  // cosine 0.87
  const std::string fusion = R"(, "chunk_source": "question", "vetoes": false,
      "enable_semantic_text_cache": false, "enable_fusion_cache": true)";
  EXPECT_EQ(run(fusion + R"(, "similarity_threshold": 0.8)")->samples[1].source, "fusion");
  const ExperimentReport missed = run(fusion + R"(, "similarity_threshold": 0.9)").value();
  EXPECT_EQ(missed.samples[1].source, "");
  EXPECT_EQ(missed.totals.techniques.at("fusion").at(TechniqueStatus::kMiss), 2U);
}

TEST_F(EngineStates, DimensionsAreTheEngines) {
  const auto wrong = run(std::string(kStates) + R"(, "embedding_layers": ["prompt:384"])");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_THAT(wrong.error().message, HasSubstr("write prompt:2"));
}

TEST_F(EngineStates, AnEngineWithoutStatesIsNamed) {
  OracleEngine oracle;
  engine = &oracle;
  const auto refused = run(std::string(kStates) + R"(, "embedding_layers": ["prompt:2"])");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("--engine"));
}

/// Such as a server's.
class ClosedEngine final : public SampleEngine {
 public:
  Result<Answer> answer(const Sample& sample, const std::string& prompt) override {
    return OracleEngine().answer(sample, prompt);
  }
};

TEST_F(EngineStates, FusionWithoutStatesIsSaid) {
  ClosedEngine closed;
  engine = &closed;
  const std::string fusion = R"({"name": "t", "model": "m", "chunk_source": "question",
      "enable_fusion_cache": true})";
  const auto says = [&](const SampleEngine& asked) {
    const auto remarks = remarks_on(*make_spec(fusion), CacheMode::kDryRun, asked);
    return std::ranges::any_of(
        remarks, [](const auto& one) { return one.contains("fusion serves nothing"); });
  };
  EXPECT_TRUE(says(closed));
  EXPECT_FALSE(says(directed));
  EXPECT_TRUE(run(R"(, "chunk_source": "question", "enable_fusion_cache": true)").has_value());
}

TEST_F(EngineStates, QuestionsWithoutAnImageHaveNoStateOfOne) {
  for (Sample& sample : samples) {
    sample.image = nullptr;
    sample.image_id.clear();
  }
  EXPECT_EQ(matched(R"(, "embedding_layers": ["prompt:2:0.9", "vision:2:0.9"])"),
            "embedding:prompt");
}

/// Texts with "lamp" point one way, with "other lamp" nearly so (cosine 0.996), and others another.
class LampEncoder final : public Embedder {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t dimensions() const override { return 2; }
  [[nodiscard]] Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) override {
    std::vector<Vector> vectors;
    for (const EmbedInput& input : inputs) {
      const auto text = std::get<std::string_view>(input);
      vectors.push_back(direction(!text.contains("lamp") ? 90 : text.contains("other") ? 5 : 0));
    }
    return vectors;
  }

 private:
  std::string name_ = "lamp";
};

// Regression: with the hook prompt_vision the layers were n-grams and grids of colours, whatever
// encoder was named.
TEST_F(EngineStates, PromptAndVisionUseTheEncodersThereAre) {
  const auto spec = make_spec(R"({"name": "t", "model": "m", "chunk_source": "question",
      "vetoes": false, "enable_semantic_text_cache": false, "enable_exact_text_cache": false,
      "embedding_hook": "prompt_vision", "embedding_layers": ["prompt:384:0.99", "vision:512:0.9"],
      "index_encoder": "a/model.gguf"})");
  samples[1].question = "And this other lamp over there, is it red?";
  attach_images(samples, roots);
  LampEncoder encoder;
  const auto source = [&](SampleEngine& asked, Embedder* made_by) {
    return run_experiment(*spec, CacheMode::kDryRun, samples, {roots, clock, asked, made_by})
        .value()
        .samples[1]
        .source;
  };
  EXPECT_EQ(source(directed, &encoder), "embedding:prompt") << "the encoder's vectors are alike";
  EXPECT_EQ(source(directed, nullptr), "") << "by n-grams they are not alike";
  directed.angles[{"b", EngineState::kVision}] = 40;  // cosine 0.77; the pixels are the same
  EXPECT_EQ(source(directed, &encoder), "");
  OracleEngine oracle;
  EXPECT_EQ(source(oracle, &encoder), "embedding:prompt") << "a grid of colours";
  const auto says = [&](const SampleEngine& asked, const char* what) {
    const auto remarks = remarks_on(*spec, CacheMode::kDryRun, asked);
    return std::ranges::any_of(remarks, [&](const auto& remark) { return remark.contains(what); });
  };
  EXPECT_TRUE(says(directed, "the engine's encoder"));
  EXPECT_TRUE(says(oracle, "grids of colours"));
}

TEST_F(EngineStates, AnIndexEncoderMakesTheVectorsOfKeys) {
  const auto spec = make_spec(R"({"name": "t", "model": "m", "chunk_source": "question",
      "vetoes": false, "index_encoder": "a/model.gguf", "similarity_threshold": 0.99})");
  EXPECT_TRUE(names_encoder(*spec));
  for (const std::string& remark : remarks_on(*spec, CacheMode::kDryRun, OracleEngine())) {
    EXPECT_FALSE(remark.contains("n-grams")) << remark;
  }
  samples[1].question = "And this other lamp over there, is it red?";
  attach_images(samples, roots);
  const auto source = [&](Embedder* encoder) {
    return run_experiment(*spec, CacheMode::kDryRun, samples, {roots, clock, directed, encoder})
        .value()
        .samples[1]
        .source;
  };
  LampEncoder encoder;
  EXPECT_EQ(source(&encoder), "text");
  EXPECT_EQ(source(nullptr), "") << "by n-grams they are not alike";
}

TEST_F(EngineStates, OutcomesThatDifferHaveOtherDigests) {
  directed.angles[{"b", EngineState::kPrompt}] = 20;
  const auto outcome = [&](const std::string& layer) {
    const auto report = run(kStates + (R"(, "embedding_layers": [")" + layer + R"("])"));
    return outcome_hash(report->samples);
  };
  const std::string matches = outcome("prompt:2:0.9");
  EXPECT_EQ(outcome("prompt:2:0.8"), matches);
  EXPECT_NE(outcome("prompt:2:0.99"), matches);
}

}  // namespace
}  // namespace afterimage
