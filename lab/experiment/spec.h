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

/// A latent layer: which vectors of a hook are compared, and the similarity required.
struct LayerSpec {
  std::string name;
  std::size_t dimensions = 0;
  double threshold = 0.85;  // cosine

  bool operator==(const LayerSpec&) const = default;
};
/// "prompt:384" or "prompt:384:0.82".
Result<LayerSpec> parse_layer(std::string_view text);

enum class CacheMode : unsigned char {
  kDryRun,  // the cache decides but the engine always answers; matches are counted, not served
  kLive,    // matches are served
};
/// "dry-run", "live".
std::string_view to_string(CacheMode mode);
std::optional<CacheMode> cache_mode_named(std::string_view name);

/// One experiment. Field names are those of spec files and of the sweep's columns. Engine settings
/// (tensor_parallel_size and similar) are read and recorded only.
struct ExperimentSpec {
  std::string name;
  std::string model;
  std::string dataset = "gqa";
  std::string data;  // file or folder of the data set; empty: from the caller
  std::string dataset_config = "val_balanced_instructions";
  std::string split = "val";
  std::int64_t max_samples = 128;  // -1: all
  std::int64_t shuffle_seed = 7;   // negative: no shuffle
  std::string chunk_source = "semantic";
  std::int64_t chunk_window = 0;  // the key's first characters; 0: all
  std::string prompt_template;    // must contain {question}
  double similarity_threshold = 0.8;
  std::vector<std::string> embedding_layers;
  std::string embedding_hook = "none";
  std::optional<std::int64_t> max_cached_blocks;  // answers kept at a time
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
  std::optional<double> cache_max_size_gb;  // of memory, for answers and vectors
  std::string similarity = "threshold";     // threshold, watch or learned
  bool vetoes = true;                       // whether differing words may veto a neighbour
  /// "same": answers about other images are never looked at. "similar": the layer "vision" decides,
  /// to measure how wrong that is; in a dry run only.
  std::string images = "same";
  std::string engine;  // as for --engine; empty: the caller's

  // Derived fields, filled in when a spec is made.
  ChunkSource source = ChunkSource::kSemantic;
  std::vector<LayerSpec> layers;
  HookChoice hook;
};

/// Whether `index_encoder` is a GGUF file or the URL of a server, which make the vectors of the
/// match level "text". Other names are those of the first semantic cache, and n-grams replace them.
[[nodiscard]] bool names_encoder(const ExperimentSpec& spec);

/// "qwen3-vl-2b", "internvl3.5-2b".
[[nodiscard]] std::vector<std::string_view> preset_names();

/// Parses one experiment from JSON settings: {"name": …, "preset": …, …}. A missing setting takes
/// the preset's value, then the default; a setting that states the default overrides the preset.
///
/// Errors   kInvalidArgument: an unknown name, a value of the wrong type or out of range, no name,
///          no model, a name that cannot be a file name.
/// Threads  Any.
Result<ExperimentSpec> make_spec(std::string_view settings_json);

/// Parses a sweep: [{…}, …] or {"defaults": {…}, "experiments": [{…}, …]}. Order: defaults, then
/// the preset (the row's rather than the defaults'), then the row. Names must be unique.
Result<std::vector<ExperimentSpec>> parse_specs(std::string_view json);

/// SHA-256, in hexadecimal digits, of all settings that may change the results, and of the mode.
[[nodiscard]] std::string spec_hash(const ExperimentSpec& spec, CacheMode mode);

/// A setting as a CSV cell: layers joined by commas, line breaks as \n, booleans as True and False.
/// Requires the name of a setting.
[[nodiscard]] std::string setting_text(const ExperimentSpec& spec, std::string_view name);

}  // namespace afterimage
