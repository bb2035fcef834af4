// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foundation/platform/testing/memory_files.h"
#include "lab/experiment/experiment.h"

namespace afterimage {
namespace {

using ::testing::HasSubstr;

constexpr const char* kLibrary = AFTERIMAGE_LETTERS_HOOK;

Result<ExperimentReport> run_with(const std::string& layer, const std::string& hook) {
  static const testing::MemoryFiles files;
  static const ImageRoots roots({}, files);
  const ManualClock clock;
  OracleEngine engine;
  const auto spec =
      make_spec(R"({"name": "t", "model": "m", "chunk_source": "question", "vetoes": false,
          "enable_exact_text_cache": false, "enable_semantic_text_cache": false,
          "embedding_layers": [")" +
                layer + R"("], "embedding_hook": ")" + hook + "\"}");
  EXPECT_TRUE(spec.has_value());
  const std::vector<Sample> samples{{.question = "who reads lamps?", .answer = "nobody"},
                                    {.question = "psalm or dew? oh, as...", .answer = "neither"},
                                    {.question = "xyz", .answer = "no"}};
  return run_experiment(*spec, CacheMode::kLive, samples, {roots, clock, engine});
}

TEST(PluginHook, ComparesALibrarysVectors) {
  const ExperimentReport report =
      run_with("letters:26:0.6", std::string(kLibrary) + ":letters").value();
  EXPECT_EQ(report.samples[0].decision, Decision::kMissed);
  EXPECT_EQ(report.samples[1].source, "embedding:letters");
  EXPECT_EQ(report.samples[2].decision, Decision::kMissed);
}

TEST(PluginHook, SkipsASampleWithoutAVector) {
  const ExperimentReport report =
      run_with("silent:1:0.1", std::string(kLibrary) + ":letters").value();
  EXPECT_EQ(report.totals.served, 0U);
  EXPECT_EQ(report.totals.techniques.at("embedding:silent").at(TechniqueStatus::kSkip), 3U);
}

TEST(PluginHook, ReportsMismatchesBeforeTheFirstSample) {
  const auto dimensions = run_with("letters:27", std::string(kLibrary) + ":letters");
  ASSERT_FALSE(dimensions.has_value());
  EXPECT_THAT(dimensions.error().message, HasSubstr("26"));
  const auto symbol = run_with("letters:26", std::string(kLibrary) + ":numbers");
  ASSERT_FALSE(symbol.has_value());
  EXPECT_THAT(symbol.error().message, HasSubstr("numbers"));
  const auto library = run_with("letters:26", "/no/such/hook.so:letters");
  ASSERT_FALSE(library.has_value());
  EXPECT_THAT(library.error().message, HasSubstr("/no/such/hook.so"));
  EXPECT_EQ(run_with("other:9", std::string(kLibrary) + ":letters").value().totals.served, 0U);
}

TEST(Hook, AcceptsTheNamesOfTheFirstSemanticCache) {
  for (const char* name : {"none", "disable", ""}) EXPECT_TRUE(parse_hook(name)->is_none()) << name;
  EXPECT_EQ(parse_hook("prompt").value(), (HookChoice{.prompt = true}));
  for (const char* name : {"vision", "image", "image_id"}) {
    EXPECT_EQ(parse_hook(name).value(), (HookChoice{.vision = true})) << name;
  }
  for (const char* name : {"prompt_vision", "prompt+vision", "prompt-image", "prompt_image"}) {
    EXPECT_EQ(parse_hook(name).value(), (HookChoice{.prompt = true, .vision = true})) << name;
  }
  EXPECT_EQ(parse_hook("/x/my.hook.so:make").value(),
            (HookChoice{.library = "/x/my.hook.so", .symbol = "make"}));
  EXPECT_EQ(parse_hook("pkg.mod:Hook").value(), (HookChoice{.python = "pkg.mod:Hook"}));
  for (const char* name :
       {"clip", "pkg.mod.Hook", "my.so:", "my.so", "pkg.:Hook", "2pkg:Hook", "os; x:y", "a/b:c"}) {
    EXPECT_FALSE(parse_hook(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace afterimage
