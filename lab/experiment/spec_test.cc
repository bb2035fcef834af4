// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/spec.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

namespace afterimage {
namespace {

// The example from the first semantic cache's documentation, verbatim.
constexpr const char* kExample = R"({
  "defaults": {"dataset_config": "val_balanced_instructions", "split": "val",
               "max_samples": 128, "chunk_source": "semantic"},
  "experiments": [
    {"name": "opt125m-semantic", "model": "facebook/opt-125m", "similarity_threshold": 0.8},
    {"name": "qwen-prompts", "model": "Qwen/Qwen2.5-VL-7B-Instruct",
     "embedding_layers": ["prompt:384:0.8", "vision:512:0.85"],
     "embedding_hook": "prompt_vision", "max_samples": 64},
    {"name": "internvl35-2b", "preset": "internvl3.5-2b", "max_samples": 64,
     "notes": "InternVL3.5-2B with prompt-semantic cache."}]})";

std::string why(std::string_view json) {
  const auto specs = parse_specs(json);
  return specs.has_value() ? "" : specs.error().message;
}

TEST(Spec, ReadsTheFirstSemanticCachesExample) {
  const auto specs = parse_specs(kExample).value();
  ASSERT_EQ(specs.size(), 3U);
  EXPECT_EQ(specs[0].model, "facebook/opt-125m");
  EXPECT_EQ(specs[0].max_samples, 128);
  EXPECT_EQ(specs[1].layers, (std::vector<LayerSpec>{{"prompt", 384, 0.8}, {"vision", 512, 0.85}}));
  EXPECT_EQ(specs[1].hook, (HookChoice{.prompt = true, .vision = true}));
  EXPECT_EQ(specs[2].model, "OpenGVLab/InternVL3_5-2B-Instruct");
  EXPECT_TRUE(specs[2].trust_remote_code);
  EXPECT_EQ(specs[2].max_samples, 64);
  EXPECT_EQ(specs[2].layers, (std::vector<LayerSpec>{{"prompt", 384, 0.8}, {"vision", 512, 0.82}}));
  EXPECT_TRUE(specs[2].prompt_template.starts_with("<image>\n"));
}

TEST(Spec, RowOverridesPresetOverridesDefaults) {
  const auto specs = parse_specs(R"({"defaults": {"preset": "qwen3-vl-2b", "max_tokens": 7,
      "split": "testdev", "similarity_threshold": 0.1},
    "experiments": [{"name": "a"}, {"name": "b", "preset": "internvl3.5-2b"},
      {"name": "c", "similarity_threshold": 0.5}, {"name": "d", "split": null}]})")
                         .value();
  EXPECT_EQ(specs[0].max_tokens, 64) << "from the preset";
  EXPECT_EQ(specs[0].split, "testdev") << "not set by the preset";
  EXPECT_EQ(specs[0].similarity_threshold, 0.82);
  EXPECT_EQ(specs[1].model, "OpenGVLab/InternVL3_5-2B-Instruct");
  EXPECT_EQ(specs[1].similarity_threshold, 0.8);
  EXPECT_EQ(specs[2].similarity_threshold, 0.5);
  EXPECT_EQ(specs[3].split, "testdev") << "null means not set";
}

TEST(Spec, AcceptsAPlainList) {
  EXPECT_EQ(parse_specs(R"([{"name": "a", "model": "m"}])").value().size(), 1U);
}

TEST(Spec, NamesTheInvalidSetting) {
  const struct {
    const char* json;
    const char* says;
  } kCases[] = {
      {"{", "not JSON"},
      {"7", "list of experiments"},
      {"[]", "no experiment"},
      {R"({"experiments": 7})", "list of experiments"},
      {R"([7])", "experiment 1"},
      {R"([{"model": "m"}])", "name"},
      {R"([{"name": "a"}])", "model"},
      {R"([{"name": "a", "model": "m", "similarty_threshold": 0.5}])", "similarty_threshold"},
      {R"([{"name": "a", "model": "m", "max_samples": "all"}])", "max_samples"},
      {R"([{"name": "a", "model": "m", "max_samples": 0}])", "max_samples"},
      {R"([{"name": "a", "model": "m", "preset": "gpt"}])", "qwen3-vl-2b"},
      {R"([{"name": "a", "model": "m", "embedding_layers": ["prompt"]}])", "NAME:DIMENSIONS"},
      {R"([{"name": "a", "model": "m", "embedding_layers": ["p:9", "p:8"]}])", "twice"},
      {R"([{"name": "a", "model": "m", "embedding_hook": "pkg.mod.Hook"}])", "PATH.so:SYMBOL"},
      {R"([{"name": "a", "model": "m", "embedding_hook": "clip"}])", "clip"},
      {R"([{"name": "a", "model": "m", "chunk_source": "words"}])", "chunk_source"},
      {R"([{"name": "a", "model": "m", "prompt_template": "<image>"}])", "{question}"},
      {R"([{"name": "../a", "model": "m"}])", "../a"},
      {R"([{"name": "a", "model": "m"}, {"name": "a", "model": "n"}])", "two experiments"}};
  for (const auto& c : kCases) EXPECT_NE(why(c.json).find(c.says), std::string::npos) << c.json;
}

TEST(Spec, ParsesLayers) {
  EXPECT_EQ(parse_layer("vision:1024:0.9"), (LayerSpec{"vision", 1024, 0.9}));
  EXPECT_EQ(parse_layer("prompt:384"), (LayerSpec{"prompt", 384, 0.85}));
  for (const char* text : {"", "prompt", "prompt:", ":384", "prompt:0", "prompt:x", "prompt:384:",
                           "prompt:384:2", "prompt:384:0.8:1", "prompt:-1", "prompt:99999999"}) {
    EXPECT_FALSE(parse_layer(text).has_value()) << text;
  }
}

TEST(Spec, HashCoversExactlyWhatChangesTheResults) {
  const auto hash = [](const std::string& more, CacheMode mode = CacheMode::kDryRun) {
    const auto spec = make_spec(R"({"name": "a", "model": "m")" + more + "}");
    return spec_hash(spec.value(), mode);
  };
  EXPECT_EQ(hash("").size(), 64U);
  EXPECT_EQ(hash(""), hash(R"(, "notes": "a second try", "data": "elsewhere")"));
  EXPECT_EQ(hash(""), hash(R"(, "max_tokens": 64)"));
  EXPECT_NE(hash(""), hash(R"(, "max_tokens": 65)"));
  EXPECT_NE(hash(""), hash(R"(, "similarity_threshold": 0.81)"));
  EXPECT_NE(hash(""), hash(R"(, "embedding_layers": ["prompt:384"])"));
  EXPECT_NE(hash(""), hash("", CacheMode::kLive));
}

TEST(Spec, WritesSettingsLikeTheFirstSemanticCache) {
  const auto spec = make_spec(R"({"name": "a", "preset": "internvl3.5-2b"})").value();
  EXPECT_EQ(setting_text(spec, "embedding_layers"), "prompt:384:0.8,vision:512:0.82");
  EXPECT_EQ(setting_text(spec, "trust_remote_code"), "True");
  EXPECT_EQ(setting_text(spec, "max_cached_blocks"), "");
  EXPECT_EQ(setting_text(spec, "temperature"), "0.0");
  EXPECT_TRUE(setting_text(spec, "prompt_template").starts_with("<image>\\nYou are"));
}

// Regression: whether a flag was given was guessed from its value, so a flag with the default value
// was overridden by the preset.
TEST(Seed002, s18_AnExplicitDefaultOverridesThePreset) {
  const auto spec = make_spec(R"({"name": "a", "preset": "qwen3-vl-2b", "similarity_threshold": 0.8,
                    "embedding_hook": "none", "trust_remote_code": false})")
                        .value();
  EXPECT_EQ(spec.similarity_threshold, 0.8);
  EXPECT_TRUE(spec.hook.is_none());
  EXPECT_FALSE(spec.trust_remote_code);
}

TEST(Ablation, TheFileHasThe32ExperimentsByName) {
  std::ifstream file(std::string(AFTERIMAGE_SOURCE_DIR) + "/examples/experiments/ablation.json");
  std::stringstream text;
  text << file.rdbuf();
  const auto specs = parse_specs(text.str()).value();
  ASSERT_EQ(specs.size(), 32U);
  std::map<std::string, const ExperimentSpec*> by_name;
  for (const ExperimentSpec& spec : specs) {
    by_name[spec.name] = &spec;
    EXPECT_EQ(spec.max_samples, 256);
    EXPECT_EQ(spec.shuffle_seed, 42);
    EXPECT_EQ(spec.source, ChunkSource::kSemantic);
    EXPECT_EQ(spec.cache_dir, "kv_chunks_ablation");
    EXPECT_EQ(spec.fusion_cache_dir, "fusion_chunks_ablation");
  }
  for (const std::string model : {"qwen", "internvl"}) {
    EXPECT_FALSE(by_name.at(model + "-exact-only")->enable_semantic_text_cache);
    EXPECT_TRUE(by_name.at(model + "-fusion-only")->enable_fusion_cache);
    for (const std::string t : {"0.5", "0.6", "0.7", "0.8", "0.9"}) {
      const ExperimentSpec& spec = *by_name.at(model + "-semantic-" + t);
      EXPECT_EQ(spec.similarity_threshold, std::stod(t));
      EXPECT_TRUE(spec.layers.empty());
    }
    for (const std::string p : {"0.7", "0.8", "0.9"}) {
      for (const std::string v : {"0.7", "0.8", "0.9"}) {
        const ExperimentSpec& spec = *by_name.at(model + "-embed-p" + p + "-v" + v);
        EXPECT_EQ(spec.layers, (std::vector<LayerSpec>{{"prompt", 384, std::stod(p)},
                                                       {"vision", 512, std::stod(v)}}));
        EXPECT_FALSE(spec.enable_semantic_text_cache);
        EXPECT_EQ(spec.similarity_threshold, 0.8);
      }
    }
  }
}

}  // namespace
}  // namespace afterimage
