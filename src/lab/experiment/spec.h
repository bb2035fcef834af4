// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "lab/datasets/chunk_source.h"
#include "lab/experiment/hook.h"

namespace afterimage {

/// A latent layer: which vectors of a hook are compared, and how alike they must be.
struct LayerSpec {
  std::string name;
  std::size_t dimensions = 0;
  double threshold = 0.85;  // cosine

  bool operator==(const LayerSpec&) const = default;
};
/// "prompt:384" or "prompt:384:0.82".
Result<LayerSpec> parse_layer(std::string_view text);

enum class CacheMode : unsigned char {
  kDryRun,  // the cache decides, and the engine answers all the same: what matches is not served
  kLive,    // what the cache decides is served
};
/// "dry-run", "live".
std::string_view to_string(CacheMode mode);
std::optional<CacheMode> cache_mode_named(std::string_view name);

/// One experiment. The names of the fields are those of spec files and of the sweep's columns.
/// What is of an engine's business (tensor_parallel_size and its like) is read and recorded.
struct ExperimentSpec {
  std::string name;
  std::string model;
  std::string dataset = "gqa";
  std::string data;  // file or folder of the data set; empty: as the caller says
  std::string dataset_config = "val_balanced_instructions";
  std::string split = "val";
  std::int64_t max_samples = 128;  // -1: all
  std::int64_t shuffle_seed = 7;   // negative: none
  std::string chunk_source = "semantic";
  std::string prompt_template;  // with {question}
  double similarity_threshold = 0.8;
  std::vector<std::string> embedding_layers;
  std::string embedding_hook = "none";
  std::optional<std::int64_t> max_cached_blocks;
  std::string cache_dir = "kv_chunks";
  std::string index_encoder = "sentence-transformers/all-MiniLM-L6-v2";
  double temperature = 0;
  std::int64_t max_tokens = 64;
  bool trust_remote_code = false;
  std::string notes;
  std::int64_t tensor_parallel_size = 1;
  double gpu_memory_utilization = 0.9;
  std::optional<std::int64_t> max_model_len;
  bool enable_fusion_cache = false;
  std::string fusion_cache_dir = "fusion_chunks";
  bool enable_semantic_text_cache = true;
  std::string preset;
  std::string index_encoder_device = "cuda";
  bool enable_exact_text_cache = true;
  std::optional<double> cache_max_size_gb;
  std::string similarity = "threshold";  // how the rungs of similarity decide: watch, learned
  bool vetoes = true;                    // whether words that differ may speak against a neighbour

  // What some of them mean; filled in by whoever makes a spec.
  ChunkSource source = ChunkSource::kSemantic;
  std::vector<LayerSpec> layers;
  HookChoice hook;
};

/// "qwen3-vl-2b", "internvl3.5-2b".
[[nodiscard]] std::vector<std::string_view> preset_names();

/// One experiment of settings in JSON: {"name": …, "preset": …, …}. What a setting does not say is
/// the preset's, and what neither says is the default; a setting that says the default is said.
///
/// Errors   kInvalidArgument: a name that nobody knows, a value of another kind or out of range, no
///          name, no model, a name that is no file's name.
/// Threads  Any.
Result<ExperimentSpec> make_spec(std::string_view settings_json);

/// A sweep: [{…}, …] or {"defaults": {…}, "experiments": [{…}, …]}. Defaults, then the preset
/// (the row's rather than that of the defaults), then the row. No two have one name.
Result<std::vector<ExperimentSpec>> parse_specs(std::string_view json);

/// SHA-256, in hexadecimal digits, of all settings that may change what comes out, and of the mode.
[[nodiscard]] std::string spec_hash(const ExperimentSpec& spec, CacheMode mode);

/// A setting as a cell of the sweep's table: layers with commas, line breaks as \n, True and False.
/// Requires a name of a setting.
[[nodiscard]] std::string setting_text(const ExperimentSpec& spec, std::string_view name);

}  // namespace afterimage
