// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <span>

#include "foundation/platform/testing/memory_files.h"
#include "lab/datasets/dataset.h"
#include "lab/datasets/picture_samples.h"
#include "lab/experiment/experiment.h"
#include "lab/experiment/experiment_report.h"
#include "lab/experiment/sample_log.h"

namespace afterimage {
namespace {

/// An oracle that takes time, counts calls, and fails at a given sample.
class SlowEngine final : public SampleEngine {
 public:
  explicit SlowEngine(ManualClock& clock) : clock_(clock) {}
  Result<Answer> answer(const Sample& sample, const std::string& prompt) override {
    ++asked;
    clock_.advance(std::chrono::milliseconds(250));
    if (sample.dataset_id == fails_at) return fail(ErrorCode::kUnavailable, "the model is gone");
    return OracleEngine().answer(sample, prompt);
  }
  [[nodiscard]] bool is_oracle() const override { return true; }
  std::size_t asked = 0;
  std::string fails_at;

 private:
  ManualClock& clock_;
};

struct Bench {
  Result<ExperimentReport> run(const std::string& settings, std::vector<Sample> samples,
                               CacheMode mode = CacheMode::kLive) {
    const auto spec = make_spec(R"({"name": "t", "model": "m")" + settings + "}");
    EXPECT_TRUE(spec.has_value()) << (spec.has_value() ? "" : spec.error().message);
    attach_images(samples, roots);
    asked = std::move(samples);
    return run_experiment(*spec, mode, asked, {roots, clock, engine});
  }
  testing::MemoryFiles files;
  ImageRoots roots{{}, files};
  ManualClock clock;
  SlowEngine engine{clock};
  std::vector<Sample> asked;
};

FileBytes picture(std::size_t number) {
  Rng rng(number);
  return std::make_shared<const std::vector<std::byte>>(
      draw_scene(make_scene(2 * number, rng)).value());
}

Sample about(std::size_t picture_number, const std::string& id, const std::string& question,
             const std::string& answer) {
  return {.dataset_id = id,
          .image_id = "p" + std::to_string(picture_number),
          .question = question,
          .answer = answer,
          .image = picture(picture_number)};
}

std::vector<Sample> twice() {
  return {about(1, "a", "Is the cap on the bottle?", "yes"),
          about(1, "b", "Is the cap on the bottle?", "yes")};
}

constexpr const char* kByQuestion = R"(, "chunk_source": "question",
    "enable_semantic_text_cache": false, "prompt_template": "Q: {question}")";
constexpr const char* kByPrompt = R"(, "chunk_source": "question",
    "enable_semantic_text_cache": false, "enable_exact_text_cache": false,
    "embedding_layers": ["prompt:384:0.95"], "embedding_hook": "prompt", "vetoes": false)";

ExperimentSpec by_question() {
  return make_spec(R"({"name": "t", "model": "m")" + std::string(kByQuestion) + "}").value();
}

std::string status(const SampleResult& result, const std::string& technique) {
  for (const Technique& one : result.techniques) {
    if (one.name == technique) return std::string(to_string(one.status));
  }
  return "none";
}

TEST(Runner, ServesACachedAnswerWithoutTheEngine) {
  Bench bench;
  const ExperimentReport report = bench.run(kByQuestion, twice()).value();
  EXPECT_EQ(bench.engine.asked, 1U);
  EXPECT_EQ(report.samples[0].decision, Decision::kMissed);
  EXPECT_EQ(report.samples[1].decision, Decision::kServed);
  EXPECT_EQ(report.samples[1].source, "text:exact");
  EXPECT_EQ(report.samples[1].response, "yes");
  EXPECT_EQ(report.samples[0].latency, std::chrono::milliseconds(250));
  EXPECT_EQ(report.samples[1].latency, Duration(0));
  EXPECT_EQ(status(report.samples[1], "exact_text"), "hit");
  EXPECT_EQ(status(report.samples[1], "semantic_text"), "skip");
  EXPECT_EQ(report.totals.served, 1U);
  EXPECT_EQ(report.totals.missed, 1U);
}

TEST(Runner, SampleLineMatchesTheFirstSemanticCache) {
  Bench bench;
  const ExperimentReport report = bench.run(kByQuestion, twice()).value();
  EXPECT_TRUE(sample_line(bench.asked[0], report.samples[0], 2)
                  .starts_with("[a] miss (none) | latency=0.250s | answer match=True | 1/2 | "))
      << sample_line(bench.asked[0], report.samples[0], 2);
  EXPECT_TRUE(sample_line(bench.asked[1], report.samples[1], 2)
                  .starts_with("[b] hit (text:exact) | latency=0.000s | answer match=True | 2/2"));
  Sample hostile = bench.asked[1];
  hostile.dataset_id = "x\n\033[2J";
  EXPECT_EQ(sample_line(hostile, report.samples[1], 2).find('\033'), std::string::npos);
}

TEST(Runner, SyntheticSetIsDecidedByTheExpectedTechniques) {
  Bench bench;
  const ExperimentReport report =
      bench.run(R"(, "preset": "internvl3.5-2b")", synthetic_samples().value()).value();
  EXPECT_EQ(report.totals.expected, 3U);
  EXPECT_EQ(report.totals.expected_met, 3U) << summary_text(report, CacheMode::kLive);
  EXPECT_EQ(report.totals.served, 3U);
  EXPECT_EQ(report.totals.wrong_served, 0U);
}

TEST(Runner, KeySimilarityServesOnlyAboveItsThreshold) {
  const std::vector<Sample> samples{about(1, "a", "Which color does the old lamp have?", "red"),
                                    about(1, "b", "Which color has the old lamp?", "red")};
  const auto served = [&](const std::string& threshold) {
    Bench bench;
    return bench
        .run(R"(, "chunk_source": "question", "similarity_threshold": )" + threshold, samples)
        .value()
        .totals.sources["text"]
        .count;
  };
  EXPECT_EQ(served("0.5"), 1U);
  EXPECT_EQ(served("0.99"), 0U);
}

TEST(Runner, SummaryAndTablesAgree) {
  Bench bench;
  const ExperimentReport report = bench.run(kByQuestion, twice()).value();
  const std::string summary = summary_text(report, CacheMode::kLive);
  for (const char* line : {"Total prompts: 2", "Cache hits: 1 (50.0%)", "Cache misses: 1 (50.0%)",
                           "Answer match rate: 100.0% (n=2)", "Served wrong: 0 of 1",
                           "text:exact: 1 (50.0%)", "exact_text: hit=1 miss=1 skip=0"}) {
    EXPECT_NE(summary.find(line), std::string::npos) << line << "\n" << summary;
  }
  const std::string line = sample_json(bench.asked[1], report.samples[1], "settings");
  const auto json = nlohmann::ordered_json::parse(line);
  std::vector<std::string> names;
  for (const auto& [name, value] : json.items()) names.push_back(name);
  names.resize(11);
  EXPECT_EQ(names, (std::vector<std::string>{"dataset_id", "image_id", "question", "chunk_text",
                                             "prompt", "hit", "hit_source", "latency", "response",
                                             "reference", "is_correct"}));
  EXPECT_EQ(json["hit"], true);
  EXPECT_EQ(json["hit_source"], "text:exact");
  EXPECT_EQ(sample_columns().size(), sample_cells(bench.asked[0], report.samples[0]).size());
}

/// Three questions, each asked again.
std::vector<Sample> six() {
  std::vector<Sample> samples;
  for (int i = 0; i < 6; ++i) {
    samples.push_back(about(1, std::to_string(i), "Is lamp " + std::to_string(i % 3) + " lit?",
                            i % 3 == 1 ? "no" : "yes"));
  }
  return samples;
}

TEST(Runner, AStoppedRunContinuesAsIfItHadNotStopped) {
  for (const CacheMode mode : {CacheMode::kLive, CacheMode::kDryRun}) {
    Bench bench;
    const ExperimentReport whole = bench.run(kByQuestion, six(), mode).value();
    for (const std::size_t stopped : {0U, 1U, 4U, 6U}) {
      Bench again;
      const auto report = run_experiment(by_question(), mode, bench.asked,
                                         {.images = again.roots,
                                          .clock = again.clock,
                                          .engine = again.engine,
                                          .recorded = std::span(whole.samples).first(stopped)});
      ASSERT_TRUE(report.has_value()) << report.error().message;
      EXPECT_EQ(outcome_hash(report->samples), outcome_hash(whole.samples)) << stopped;
      EXPECT_EQ(again.engine.asked,
                bench.engine.asked - std::min<std::size_t>(stopped, bench.engine.asked))
          << stopped;
    }
  }
}

TEST(Runner, ARecordOfOtherDecisionsIsNotContinued) {
  Bench bench;
  ExperimentReport whole = bench.run(kByQuestion, six()).value();
  whole.samples[4].source = "text:near";
  const auto report = run_experiment(by_question(), CacheMode::kLive, bench.asked,
                                     {.images = bench.roots,
                                      .clock = bench.clock,
                                      .engine = bench.engine,
                                      .recorded = std::span(whole.samples).first(5)});
  ASSERT_FALSE(report.has_value());
  EXPECT_NE(report.error().message.find("sample 4"), std::string::npos) << report.error().message;
}

TEST(Runner, ALogIsReadBackUpToALineThatWasCutOff) {
  Bench bench;
  bench.engine.fails_at = "2";
  const ExperimentReport whole = bench.run(kByQuestion, six()).value();
  auto log = SampleLog::open({.csv = "t.csv", .jsonl = "s.jsonl"}, "settings", bench.asked,
                             std::span(whole.samples).first(1), bench.files, bench.clock)
                 .value();
  for (std::size_t i = 1; i < 6; ++i) {
    ASSERT_TRUE(log.add(whole.samples[i]).has_value());
    if (i == 3) bench.clock.advance(std::chrono::seconds(2));  // what waits is written then
  }
  const auto read = [&](const std::string& settings = "settings") {
    return recorded_samples("s.jsonl", settings, bench.asked, bench.files);
  };
  EXPECT_EQ(read()->size(), 5U);
  ASSERT_TRUE(log.flush().has_value());
  const auto recorded = read().value();
  ASSERT_EQ(recorded.size(), 6U);
  EXPECT_EQ(outcome_hash(recorded), outcome_hash(whole.samples));
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(sample_json(bench.asked[i], recorded[i], "settings"),
              sample_json(bench.asked[i], whole.samples[i], "settings"));
  }
  const auto rows = bench.files.read("t.csv", 1_MiB).value();
  EXPECT_EQ(parse_csv({reinterpret_cast<const char*>(rows.data()), rows.size()}).rows.size(), 7U);
  auto lines = bench.files.read("s.jsonl", 1_MiB).value();
  ASSERT_TRUE(bench.files.cut("s.jsonl", Bytes(lines.size() - 1)).has_value());
  EXPECT_EQ(read()->size(), 5U);
  EXPECT_EQ(read("others").error().code, ErrorCode::kInvalidArgument);
  std::swap(bench.asked[1], bench.asked[2]);
  EXPECT_NE(read().error().message.find("line 2: the data has another sample"), std::string::npos);
}

/// Says how much of a prompt it did not compute again.
class ReusingEngine final : public SampleEngine {
 public:
  Result<Answer> answer(const Sample& sample, const std::string& prompt) override {
    reused_ = sample.dataset_id == "b" ? 7 : 0;
    return OracleEngine().answer(sample, prompt);
  }
  [[nodiscard]] std::optional<std::uint64_t> reused_tokens() const override { return reused_; }
  [[nodiscard]] std::string model() const override { return "seer.gguf"; }

 private:
  std::uint64_t reused_ = 0;
};

TEST(Runner, TokensThatTheEngineReusedAreTheFirstTechnique) {
  Bench bench;
  ReusingEngine engine;
  std::vector<Sample> samples = twice();
  samples[1].question = "Is the bottle full?";
  samples.push_back(samples[0]);  // from the cache: the engine isn't asked
  const auto report =
      run_experiment(by_question(), CacheMode::kLive, samples,
                     {.images = bench.roots, .clock = bench.clock, .engine = engine})
          .value();
  EXPECT_EQ(status(report.samples[0], "kv_cache"), "miss");
  EXPECT_EQ(status(report.samples[1], "kv_cache"), "hit");
  EXPECT_EQ(status(report.samples[2], "kv_cache"), "skip");
  EXPECT_EQ(bench.run(kByQuestion, twice()).value().samples[0].techniques.front().status,
            TechniqueStatus::kSkip)
      << "this engine does not say";
  const auto remarks = remarks_on(by_question(), CacheMode::kLive, engine);
  EXPECT_NE(std::ranges::find(remarks, "seer.gguf answers: m is a name in the logs and is not run"),
            remarks.end());
}

// Settings that were only recorded.
TEST(Runner, TheWindowOfAKeyAndTheNumberOfAnswersAreLimits) {
  Bench bench;
  std::vector<Sample> samples = twice();
  samples[1].question = "Is the cap on the other bottle?";
  const auto served = [&](const std::string& more) {
    return bench.run(kByQuestion + more, samples).value().totals.served;
  };
  EXPECT_EQ(served(""), 0U);
  EXPECT_EQ(served(R"(, "chunk_window": 17)"), 1U);
  EXPECT_EQ(served(R"(, "chunk_window": 19)"), 0U);
  samples = six();
  EXPECT_EQ(served(""), 3U);
  EXPECT_EQ(served(R"(, "max_cached_blocks": 1)"), 0U);
}

TEST(Runner, NothingIsCachedOrServedAboveTemperatureZero) {
  Bench bench;
  const ExperimentReport report =
      bench.run(std::string(kByQuestion) + R"(, "temperature": 0.7)", twice()).value();
  EXPECT_EQ(bench.engine.asked, 2U);
  EXPECT_EQ(report.totals.served, 0U);
  EXPECT_EQ(status(report.samples[1], "exact_text"), "skip");
}

// Regression: a dry run counted matches as hits, and the model's time as the time of hits.
TEST(Seed002, s06_ADryRunServesNothingAndCountsNoHits) {
  Bench bench;
  const ExperimentReport report = bench.run(kByQuestion, twice(), CacheMode::kDryRun).value();
  EXPECT_EQ(bench.engine.asked, 2U);
  EXPECT_EQ(report.totals.served, 0U);
  EXPECT_EQ(report.totals.matched_not_used, 1U);
  EXPECT_EQ(report.samples[1].latency, std::chrono::milliseconds(250));
  EXPECT_NE(sample_line(bench.asked[1], report.samples[1], 2).find("] match (text:exact)"),
            std::string::npos);
  EXPECT_NE(summary_text(report, CacheMode::kDryRun).find("Cache hits: 0 (0.0%)"),
            std::string::npos);
}

// Regression: the prompt's vector was made from the rendered prompt, most of which is the shared
// template.
TEST(Seed002, s09_PromptVectorExcludesTheTemplate) {
  const std::vector<Sample> samples{about(1, "a", "Is it day?", "yes"),
                                    about(1, "b", "How many kettles stand there?", "3")};
  std::string words;
  for (int i = 0; i < 200; ++i) words += " answer the question using the referenced image";
  Bench bench;
  const ExperimentReport report =
      bench
          .run(std::string(kByPrompt) + R"(, "prompt_template": ")" + words + R"( {question}")",
               samples)
          .value();
  EXPECT_EQ(report.totals.served, 0U);
  EXPECT_EQ(status(report.samples[1], "embedding:prompt"), "miss");
  Bench again;
  EXPECT_EQ(again.run(kByPrompt, twice()).value().samples[1].source, "embedding:prompt");
}

// Regression: equal words about another image, for another model or template shared one answer.
TEST(Seed002, s10_EqualWordsInAnotherScopeMiss) {
  const Sample first = about(1, "a", "Is the cap on the bottle?", "yes");
  Sample other = about(2, "b", "Is the cap on the bottle?", "no");
  for (const char* settings : {kByQuestion, kByPrompt}) {
    Bench bench;
    const ExperimentReport report = bench.run(settings, {first, other}).value();
    EXPECT_EQ(report.totals.served, 0U) << settings;
    EXPECT_EQ(report.totals.correct, 2U);
  }
  other.image = first.image;
  Bench named;  // one image under two names that occur in the prompt
  const ExperimentReport report =
      named
          .run(R"(, "chunk_source": "question", "enable_semantic_text_cache": false,
                  "prompt_template": "{image_id}: {question}")",
               {first, other})
          .value();
  EXPECT_EQ(report.totals.served, 0U);
}

// Regression: "fusion only" silently ran as "exact only".
TEST(Seed002, s11_FusionWithoutAnEngineIsReportedAndServesNothing) {
  Bench bench;
  const ExperimentReport report =
      bench.run(std::string(kByQuestion) + R"(, "enable_fusion_cache": true)", twice()).value();
  EXPECT_EQ(report.totals.techniques.at("fusion").at(TechniqueStatus::kSkip), 2U);
  EXPECT_EQ(report.totals.techniques.at("fusion").size(), 1U);
  EXPECT_EQ(report.totals.sources.size(), 1U);
  const auto spec = make_spec(R"({"name": "t", "model": "m", "enable_fusion_cache": true})");
  bool said = false;
  for (const std::string& remark : remarks_on(*spec, CacheMode::kLive, OracleEngine())) {
    said |= remark.find("fusion serves nothing") != std::string::npos;
  }
  EXPECT_TRUE(said);
}

// Regression: entries were inserted before the answer existed and stayed if there was none.
TEST(Seed002, s12_InsertsAnAnswerOnlyOnceItExists) {
  Bench bench;
  bench.engine.fails_at = "a";
  std::vector<Sample> samples = twice();
  samples.push_back(samples[0]);
  samples[2].dataset_id = "c";
  const ExperimentReport report = bench.run(kByQuestion, samples).value();
  EXPECT_EQ(report.samples[0].decision, Decision::kFailed);
  EXPECT_EQ(report.samples[0].error, "the model is gone");
  EXPECT_EQ(report.samples[1].decision, Decision::kMissed) << "a failed answer is not cached";
  EXPECT_EQ(report.samples[2].decision, Decision::kServed);
  EXPECT_EQ(report.totals.failed, 1U);
}

// Regression: a vector of other dimensions threw an exception in the middle of the run.
TEST(Seed002, s17_ReportsMismatchedLayersBeforeTheFirstSample) {
  Bench bench;
  const auto report =
      bench.run(R"(, "embedding_layers": ["prompt:3:0.8"], "embedding_hook": "prompt")", twice());
  ASSERT_FALSE(report.has_value());
  EXPECT_NE(report.error().message.find("prompt"), std::string::npos);
  EXPECT_EQ(bench.engine.asked, 0U);
}

// Regression: a missing image went unnoticed.
TEST(Seed002, s24_AQuestionWithoutItsImageSharesNoOtherImagesAnswer) {
  std::vector<Sample> samples = twice();
  samples[1].image_id = "p2";
  samples[1].answer = "no";
  for (Sample& sample : samples) sample.image = nullptr;
  Bench bench;
  const ExperimentReport report = bench.run(kByQuestion, samples).value();
  EXPECT_EQ(report.totals.served, 0U);
  const std::string start = start_text("x", key_use(bench.asked, by_question()),
                                       attach_images(bench.asked, bench.roots), {});
  EXPECT_NE(start.find("Images attached: 0 of 2"), std::string::npos) << start;
  EXPECT_NE(start.find("[warn] 2 samples are asked without their image"), std::string::npos);
}

// Regression: only hits of latent layers were checked for the image, not text hits.
TEST(Seed002, s25_NoLevelServesAnAnswerAboutAnotherImage) {
  const std::vector<Sample> samples{about(1, "a", "Which color does the old lamp have?", "red"),
                                    about(2, "b", "Which color does the old lamp have?", "blue"),
                                    about(2, "c", "which color does the old lamp have", "blue"),
                                    about(3, "d", "Which color has the old lamp?", "green")};
  Bench bench;
  const ExperimentReport report =
      bench
          .run(R"(, "chunk_source": "question", "similarity_threshold": -1, "vetoes": false,
                  "embedding_layers": ["prompt:384:-1", "vision:512:-1"],
                  "embedding_hook": "prompt_vision", "prompt_template": "{question}")",
               samples)
          .value();
  EXPECT_EQ(report.totals.wrong_served, 0U);
  EXPECT_EQ(report.totals.served, 1U) << "the third, about the same image as the second";
  EXPECT_EQ(report.samples[2].decision, Decision::kServed);
}

// Wrong reuse is counted: here the key says nothing about the question.
TEST(Runner, CountsWrongReuseBySource) {
  const std::vector<Sample> samples{about(1, "a", "Is it day?", "yes"),
                                    about(1, "b", "How many dogs are there?", "3")};
  for (const CacheMode mode : {CacheMode::kLive, CacheMode::kDryRun}) {
    Bench bench;
    const ExperimentReport report =
        bench
            .run(R"(, "chunk_source": "image", "enable_semantic_text_cache": false)", samples, mode)
            .value();
    EXPECT_TRUE(report.samples[1].is_wrong);
    EXPECT_EQ(report.totals.wrong_served, mode == CacheMode::kLive ? 1U : 0U);
    EXPECT_EQ(report.totals.wrong_matched, mode == CacheMode::kLive ? 0U : 1U);
    EXPECT_EQ(report.totals.sources.at("text:exact").wrong, 1U);
    EXPECT_EQ(report.samples[1].is_correct, mode == CacheMode::kDryRun);
  }
}

TEST(Runner, SkipsAndReportsLayersTheHookDoesNotMake) {
  Bench bench;
  const std::string settings = R"(, "chunk_source": "question", "enable_exact_text_cache": false,
      "enable_semantic_text_cache": false,
      "embedding_layers": ["prompt:384:0.9", "decoder:2048"], "embedding_hook": "prompt")";
  const ExperimentReport report = bench.run(settings, twice()).value();
  EXPECT_EQ(report.samples[1].source, "embedding:prompt");
  EXPECT_EQ(status(report.samples[1], "embedding:decoder"), "skip");
  const auto spec = make_spec(R"({"name": "t", "model": "m")" + settings + "}");
  bool said = false;
  for (const std::string& remark : remarks_on(*spec, CacheMode::kLive, OracleEngine())) {
    said |= remark.find("decoder") != std::string::npos;
  }
  EXPECT_TRUE(said);
}

/// A model that writes the same in two ways, and says something else from `changes_at` on.
class WordyEngine final : public SampleEngine {
 public:
  Result<Answer> answer(const Sample& /*sample*/, const std::string& /*prompt*/) override {
    const std::string said = ++asked < changes_at ? "red" : "blue";
    if (asked == fails_at) return fail(ErrorCode::kUnavailable, "the model is gone");
    return Answer{.text = asked % 2 == 0 ? said : said + ".", .finish_reason = "stop"};
  }
  std::size_t asked = 0;
  std::size_t changes_at = 1'000;
  std::size_t fails_at = 1'000;
};

TEST(ExperimentRunner, AModelsAnswersAreComparedByWhatTheySay) {
  const std::vector<Sample> samples{about(1, "a", "What colour is it?", "red"),
                                    about(1, "b", "What colour is it?", "red"),
                                    about(1, "c", "What colour is it?", "red")};
  const auto spec = make_spec(R"({"name": "t", "model": "m"})").value();
  for (const CacheMode mode : {CacheMode::kDryRun, CacheMode::kLive}) {
    testing::MemoryFiles files;
    const ImageRoots roots({}, files);
    const ManualClock clock;
    WordyEngine engine;
    auto report = run_experiment(spec, mode, samples, {roots, clock, engine}).value();
    EXPECT_EQ(engine.asked, 3U) << "in live mode to compare what was served";
    EXPECT_EQ(report.totals.wrong_served + report.totals.wrong_matched, 0U);
    WordyEngine other;
    other.changes_at = 3;
    report = run_experiment(spec, mode, samples, {roots, clock, other}).value();
    EXPECT_EQ(report.totals.wrong_served, mode == CacheMode::kLive ? 1U : 0U);
    EXPECT_EQ(report.totals.wrong_matched, mode == CacheMode::kLive ? 0U : 1U);
  }
}

// A hit that nobody compared is not a right one.
TEST(ExperimentRunner, AHitThatTheModelCannotConfirmIsWrong) {
  const std::vector<Sample> samples{about(1, "a", "What colour is it?", "red"),
                                    about(1, "b", "What colour is it?", "red")};
  const auto spec = make_spec(R"({"name": "t", "model": "m"})").value();
  testing::MemoryFiles files;
  const ImageRoots roots({}, files);
  const ManualClock clock;
  WordyEngine engine;
  engine.fails_at = 2;
  const auto report =
      run_experiment(spec, CacheMode::kLive, samples, {roots, clock, engine}).value();
  EXPECT_EQ(report.totals.served, 1U);
  EXPECT_EQ(report.totals.wrong_served, 1U);
}

}  // namespace
}  // namespace afterimage
