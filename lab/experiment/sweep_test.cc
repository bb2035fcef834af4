// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "foundation/platform/testing/memory_files.h"
#include "lab/datasets/picture_samples.h"
#include "lab/experiment/cache_folder.h"
#include "lab/experiment/experiment_report.h"
#include "lab/experiment/sweep_page.h"
#include "testing/seeds.h"
#include "testing/temporary_folder.h"

namespace afterimage {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Fails every write from the n-th on, as if the process had ended there; the n-th append is
/// partial.
class DyingFiles final : public Files {
 public:
  explicit DyingFiles(Files& inner, std::size_t lives) : inner_(inner), lives_(lives) {}
  Result<std::vector<std::byte>> read(const std::string& path, Bytes limit) const override {
    return inner_.read(path, limit);
  }
  Result<void> replace(const std::string& path, std::span<const std::byte> content) override {
    return live() ? inner_.replace(path, content) : gone();
  }
  Result<void> append(const std::string& path, std::span<const std::byte> content) override {
    const bool was_dead = lives_ == 0;
    if (live()) return inner_.append(path, content);
    if (!was_dead || torn_) return gone();
    torn_ = true;
    AFI_TRY_VOID(inner_.append(path, content.first(content.size() / 2)));
    return gone();
  }
  Result<void> cut(const std::string& path, Bytes size) override { return inner_.cut(path, size); }
  Result<void> make_folder(const std::string& path) override { return inner_.make_folder(path); }
  Result<void> empty_folder(const std::string& path, const std::string& kept) override {
    return inner_.empty_folder(path, kept);
  }
  Result<void> check_replaceable(const std::string& path) const override {
    return inner_.check_replaceable(path);
  }
  Result<std::vector<std::string>> list(const std::string& folder) const override {
    return inner_.list(folder);
  }
  [[nodiscard]] bool is_folder(const std::string& path) const override {
    return inner_.is_folder(path);
  }

 private:
  bool live() {
    if (lives_ == 0) return false;
    --lives_;
    return true;
  }
  static Result<void> gone() { return fail(ErrorCode::kUnavailable, "the process is gone"); }

  Files& inner_;
  std::size_t lives_;
  bool torn_ = false;
};

struct SweepBench {
  Result<SweepOutcome> run(const std::string& json, SweepOptions options = {}) {
    return run_over(files, json, std::move(options));
  }
  Result<SweepOutcome> run_over(Files& over, const std::string& json, SweepOptions options = {}) {
    said.clear();
    const auto specs = parse_specs(json).value();
    options.log_file = "log.csv";
    options.samples_dir = "samples";
    options.places.questions = 200;
    const SweepProgress progress{.say = [this](const std::string& line) { said += line + "\n"; },
                                 .progress = {},
                                 .timestamp = [] { return std::string("2026-11-22T08:00:00Z"); }};
    return run_sweep(specs, options, over, clock, progress);
  }
  std::string text(const std::string& path) {
    const auto content = files.read(path, 1_MiB);
    if (!content.has_value()) return "";
    return {reinterpret_cast<const char*>(content->data()), content->size()};
  }
  std::vector<std::string> names() {
    std::vector<std::string> all;
    const CsvRecords log = parse_csv(text("log.csv"));
    for (std::size_t i = 1; i < log.rows.size(); ++i) all.push_back(log.rows[i][1]);
    return all;
  }

  testing::MemoryFiles files;
  ManualClock clock;
  std::string said;
};

std::string three(const std::string& more = "") {
  return R"({"defaults": {"model": "m", "dataset": "generated", "max_samples": 30)" + more +
         R"(}, "experiments": [{"name": "one"}, {"name": "two", "chunk_source": "question"},
             {"name": "three", "prompt_template": "A, \"B\"\n{question}"}]})";
}

TEST(Csv, AnyCellRoundTrips) {
  const CsvRow row{"plain", "", "a,b", "say \"hi\"", "two\nlines", "cr\r\nlf", " space ", "é"};
  const CsvRecords read = parse_csv(csv_record(row));
  ASSERT_EQ(read.rows.size(), 1U);
  EXPECT_EQ(read.rows[0], row);
  EXPECT_EQ(csv_record(std::vector<std::string>{"a\"b", "c"}), "\"a\"\"b\",c\r\n");
}

TEST(Csv, DropsAPartialLastRow) {
  const std::string whole = csv_record(CsvRow{"a", "b\nc"}) + csv_record(CsvRow{"d", "e,f"});
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const CsvRecords read = parse_csv(std::string_view(whole).substr(0, size));
    EXPECT_EQ(read.rows.size(), size == whole.size() ? 2U : size >= 9 ? 1U : 0U) << size;
    EXPECT_LE(read.bytes, size);
  }
}

TEST(CsvLog, AppendsToAnExistingLog) {
  testing::MemoryFiles files;
  for (int i = 0; i < 3; ++i) {
    CsvLog log = CsvLog::open("x.csv", {"a", "b"}, files).value();
    EXPECT_EQ(log.rows().size(), static_cast<std::size_t>(i));
    ASSERT_TRUE(log.append({std::to_string(i), "x"}).has_value());
  }
  EXPECT_EQ(CsvLog::open("x.csv", {"a", "b"}, files).value().rows().back(), (CsvRow{"2", "x"}));
}

// Regression: rows were appended whatever columns the file had, so columns shifted between
// versions.
TEST(Seed002, s20_RefusesALogWithOtherColumns) {
  SweepBench bench;
  const std::string old = "timestamp,experiment,model\r\n2024,x,y\r\n";
  ASSERT_TRUE(bench.files.replace("log.csv", std::as_bytes(std::span(old))).has_value());
  const auto outcome = bench.run(three());
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().message, HasSubstr("column 4"));
  EXPECT_EQ(bench.text("log.csv"), old);
  const std::string other = "no table at all";
  ASSERT_TRUE(bench.files.replace("log.csv", std::as_bytes(std::span(other))).has_value());
  EXPECT_FALSE(bench.run(three()).has_value());
  EXPECT_EQ(bench.text("log.csv"), other);
}

TEST(Sweep, WritesARowAndSamplesForEachExperiment) {
  SweepBench bench;
  const SweepOutcome outcome = bench.run(three()).value();
  EXPECT_EQ(outcome.ran, 3U);
  EXPECT_EQ(bench.names(), (std::vector<std::string>{"one", "two", "three"}));
  for (const char* name : {"one", "two", "three"}) {
    const std::string lines = bench.text(std::string("samples/") + name + ".jsonl");
    EXPECT_EQ(std::ranges::count(lines, '\n'), 30) << name;
  }
  const CsvRecords log = parse_csv(bench.text("log.csv"));
  EXPECT_EQ(log.rows[0], sweep_columns());
  EXPECT_EQ(log.rows[3][8], "A, \"B\"\\n{question}") << "the template with its line break as \\n";
  EXPECT_THAT(bench.said, HasSubstr("=== Running experiment: one ===\n"));
  EXPECT_THAT(bench.said, HasSubstr("[done] one: prompts=30 hits=0 (0.0%) accuracy=1.000"));
}

TEST(Sweep, FirstColumnsMatchTheFirstSemanticCache) {
  std::vector<std::string> columns = sweep_columns();
  columns.resize(34);
  const std::vector<std::string> seed{"timestamp",
                                      "experiment",
                                      "model",
                                      "dataset_config",
                                      "split",
                                      "max_samples",
                                      "shuffle_seed",
                                      "chunk_source",
                                      "prompt_template",
                                      "similarity_threshold",
                                      "embedding_layers",
                                      "embedding_hook",
                                      "max_cached_blocks",
                                      "cache_dir",
                                      "index_encoder",
                                      "temperature",
                                      "max_tokens",
                                      "trust_remote_code",
                                      "notes",
                                      "tensor_parallel_size",
                                      "gpu_memory_utilization",
                                      "enable_fusion_cache",
                                      "fusion_cache_dir",
                                      "enable_semantic_text_cache",
                                      "preset",
                                      "total_prompts",
                                      "cache_hits",
                                      "cache_hit_rate",
                                      "avg_latency",
                                      "avg_latency_hit",
                                      "avg_latency_miss",
                                      "answer_accuracy",
                                      "wall_time",
                                      "hit_breakdown"};
  EXPECT_EQ(columns, seed);
}

TEST(Sweep, ResumeSkipsLoggedExperiments) {
  SweepBench bench;
  ASSERT_TRUE(bench.run(three()).has_value());
  const std::string log = bench.text("log.csv");
  const SweepOutcome again = bench.run(three(), {.resume = true}).value();
  EXPECT_EQ(again.skipped, 3U);
  EXPECT_EQ(again.rows.size(), 3U) << "the report covers all of them";
  EXPECT_EQ(bench.text("log.csv"), log);
  EXPECT_THAT(bench.said, HasSubstr("[skip] Experiment 'one' already logged.\n"));
}

// Regression: logged experiments were identified by name alone, so an edited one was skipped, and
// the row was written before the samples.
TEST(Seed002, s19_AnEditedExperimentRunsAgain) {
  SweepBench bench;
  ASSERT_TRUE(bench.run(three()).has_value());
  const SweepOutcome edited =
      bench.run(three(R"(, "similarity_threshold": 0.7)"), {.resume = true}).value();
  EXPECT_EQ(edited.ran, 3U);
  EXPECT_THAT(bench.said, HasSubstr("[again] Experiment 'one'"));
  SweepOptions other_data{.resume = true};
  other_data.places.seed = 9;
  EXPECT_EQ(bench.run(three(), other_data).value().ran, 3U);
  EXPECT_EQ(bench.run(three(), {.resume = true}).value().skipped, 3U);
  const SweepOptions live{.resume = true, .mode = CacheMode::kLive};
  EXPECT_EQ(bench.run(three(), live).value().ran, 3U) << "a dry run does not count as a live run";
}

TEST(Seed002, s19_ACrashAnywhereLosesOrDuplicatesNothing) {
  SweepBench whole;
  ASSERT_TRUE(whole.run(three()).has_value());
  for (std::size_t lives = 0; lives < 7; ++lives) {
    SweepBench bench;
    DyingFiles dying(bench.files, lives);
    (void)bench.run_over(dying, three());
    for (const std::string& name : bench.names()) {
      EXPECT_NE(bench.text("samples/" + name + ".jsonl"), "") << "a row implies its samples";
    }
    ASSERT_TRUE(bench.run(three(), {.resume = true}).has_value()) << lives;
    std::vector<std::string> names = bench.names();
    std::ranges::sort(names);
    EXPECT_EQ(names, (std::vector<std::string>{"one", "three", "two"})) << lives;
    EXPECT_EQ(bench.text("samples/two.jsonl"), whole.text("samples/two.jsonl"));
    const auto again = bench.run(three(), {.resume = true});
    ASSERT_TRUE(again.has_value()) << lives << ": an incomplete row: " << again.error().message;
    EXPECT_EQ(again->skipped, 3U) << lives;
  }
}

// Regression: the guard compared a path with a string and never matched: "/" would have been
// removed.
TEST(Seed002, s15_PurgesOnlyMarkedFolders) {
  const testing::TemporaryFolder folder;
  SystemFiles files;
  const std::string theirs = folder.file("theirs");
  ASSERT_TRUE(files.make_folder(theirs).has_value());
  ASSERT_TRUE(files.replace(theirs + "/thesis.txt", {}).has_value());
  EXPECT_FALSE(purge_cache_folder(theirs, files).has_value());
  EXPECT_FALSE(make_cache_folder(theirs, files).has_value()) << "and it is not taken over";
  EXPECT_TRUE(std::filesystem::exists(theirs + "/thesis.txt"));
  for (const char* root : {"/", "//", "/.", "/usr/..", ""}) {
    const auto purged = purge_cache_folder(root, files);
    ASSERT_FALSE(purged.has_value()) << root;
    EXPECT_THAT(purged.error().message, HasSubstr("root of the file system")) << root;
  }
  const std::string ours = folder.file("ours");
  EXPECT_FALSE(purge_cache_folder(ours, files).value()) << "no such folder";
  ASSERT_TRUE(make_cache_folder(ours, files).has_value());
  ASSERT_TRUE(files.make_folder(ours + "/deep").has_value());
  ASSERT_TRUE(files.replace(ours + "/deep/x", {}).has_value());
  EXPECT_TRUE(purge_cache_folder(ours, files).value());
  EXPECT_FALSE(std::filesystem::exists(ours + "/deep"));
  EXPECT_TRUE(purge_cache_folder(ours, files).value()) << "the marker stays";
}

// Regression: one experiment that cannot run ended the sweep.
TEST(Seed002, s17_AFailedExperimentIsReportedAndTheOthersRun) {
  SweepBench bench;
  const SweepOutcome outcome =
      bench
          .run(R"([{"name": "bad", "model": "m", "dataset": "generated", "max_samples": 5,
                    "embedding_layers": ["prompt:2"], "embedding_hook": "prompt"},
                   {"name": "nowhere", "model": "m", "dataset": "gqa"},
                   {"name": "good", "model": "m", "dataset": "generated", "max_samples": 5}])")
          .value();
  EXPECT_EQ(outcome.failed, 2U);
  EXPECT_EQ(outcome.ran, 1U);
  EXPECT_EQ(bench.names(), std::vector<std::string>{"good"});
  EXPECT_THAT(bench.said, HasSubstr("[failed] bad: layer \"prompt\""));
  EXPECT_THAT(bench.said, HasSubstr("--data"));
}

// Regression: times were written without a time zone.
TEST(Seed002, s28_TimestampsAreUtc) {
  SweepBench bench;
  ASSERT_TRUE(bench.run(three()).has_value());
  EXPECT_EQ(parse_csv(bench.text("log.csv")).rows[1][0], "2026-11-22T08:00:00Z");
}

TEST(SweepPage, DrawsTheCurvesAndFetchesNothing) {
  SweepBench bench;
  const SweepOutcome outcome =
      bench
          .run(R"({"defaults": {"model": "<m>", "dataset": "generated", "max_samples": 40,
                     "chunk_source": "question"},
                   "experiments": [{"name": "s5", "similarity_threshold": 0.5},
                     {"name": "s9", "similarity_threshold": 0.9},
                     {"name": "e", "embedding_layers": ["prompt:384:0.8", "vision:512:0.7"],
                      "embedding_hook": "prompt_vision"}]})")
          .value();
  const std::string page = sweep_page(outcome.rows);
  EXPECT_THAT(page, HasSubstr("&lt;m&gt;, text"));
  EXPECT_THAT(page, HasSubstr("prompt with vision 0.7"));
  EXPECT_THAT(page, HasSubstr("Latency by match level"));
  EXPECT_THAT(page, HasSubstr("<td>s9</td>"));
  for (const char* never : {"<m>", "<script", "http://", "https://", "nan"}) {
    EXPECT_THAT(page, Not(HasSubstr(never)));
  }
  EXPECT_THAT(sweep_page({}), HasSubstr("0 experiments"));
}

TEST(SweepPage, NamesTheEngines) {
  SweepBench bench;
  SweepOutcome outcome =
      bench.run(R"([{"name": "a", "model": "m", "dataset": "generated", "max_samples": 9}])")
          .value();
  const CsvRow columns = sweep_columns();
  const auto engine = std::ranges::find(columns, "engine") - columns.begin();
  EXPECT_THAT(sweep_page(outcome.rows), HasSubstr("Answers come from the data set"));
  outcome.rows[0][static_cast<std::size_t>(engine)] = "models/seer.gguf";
  const std::string page = sweep_page(outcome.rows);
  EXPECT_THAT(page, HasSubstr("seer.gguf, text"));
  EXPECT_THAT(page, HasSubstr("<td>seer.gguf</td>"));
  EXPECT_THAT(page, Not(HasSubstr("oracle")));
}

TEST(Sweep, NamesExperimentsWithTheSameOutcome) {
  SweepBench bench;
  const SweepOutcome outcome =
      bench
          .run(R"({"defaults": {"model": "m", "dataset": "generated", "max_samples": 40,
                     "chunk_source": "question", "vetoes": false},
                   "experiments": [{"name": "a", "similarity_threshold": 0.5},
                     {"name": "b", "similarity_threshold": 0.99},
                     {"name": "c", "similarity_threshold": 0.5, "notes": "as a"}]})")
          .value();
  EXPECT_EQ(same_outcomes(outcome.rows), std::vector<std::string>{"a = c"});
  EXPECT_TRUE(same_outcomes(std::span(outcome.rows).first(2)).empty());
}

}  // namespace
}  // namespace afterimage
