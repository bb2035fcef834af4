// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "afterimage/result.h"
#include "foundation/crypto/sha256.h"
#include "foundation/text/json_lines.h"
#include "lab/datasets/dataset.h"
#include "lab/datasets/prompt.h"

namespace afterimage {
namespace {

using SettingJson = nlohmann::ordered_json;

constexpr const char* kGqaTemplate =
    "You are assisting with the GQA benchmark. Answer the question using the referenced image.\n"
    "Image ID: {image_id}\nQuestion: {question}\nAnswer:";
constexpr const char* kDefaultHook = "prompt_vision";

struct Preset {
  std::string_view name;
  const char* model;
  const char* before;  // what the template begins with
  std::array<const char*, 2> layers;
  double threshold;
};
constexpr auto kPresets = std::to_array<Preset>(
    {{"qwen3-vl-2b", "Qwen/Qwen3-VL-2B-Instruct", "", {"prompt:384:0.82", "vision:512:0.85"}, 0.82},
     {"internvl3.5-2b",
      "OpenGVLab/InternVL3_5-2B-Instruct",
      "<image>\n",
      {"prompt:384:0.8", "vision:512:0.82"},
      0.8}});

SettingJson settings_of(const Preset& preset) {
  return {{"model", preset.model},
          {"trust_remote_code", true},
          {"prompt_template", std::string(preset.before) + kGqaTemplate},
          {"chunk_source", "semantic"},
          {"embedding_layers", preset.layers},
          {"embedding_hook", kDefaultHook},
          {"similarity_threshold", preset.threshold},
          {"temperature", 0.0},
          {"max_tokens", 64}};
}

/// A field of a spec with its conversions from and to JSON.
struct SpecField {
  std::string_view name;
  std::function<bool(const SettingJson&, ExperimentSpec&)> read;  // false: wrong type
  std::function<SettingJson(const ExperimentSpec&)> write;
  const char* kind;
};

bool take(const SettingJson& json, std::string& value) {
  if (json.is_string()) value = json.get<std::string>();
  return json.is_string();
}
bool take(const SettingJson& json, bool& value) {
  if (json.is_boolean()) value = json.get<bool>();
  return json.is_boolean();
}
bool take(const SettingJson& json, std::int64_t& value) {
  if (json.is_number_integer()) value = json.get<std::int64_t>();
  return json.is_number_integer();
}
bool take(const SettingJson& json, double& value) {
  if (json.is_number()) value = json.get<double>();
  return json.is_number();
}
bool take(const SettingJson& json, std::vector<std::string>& value) {
  if (!json.is_array()) return false;
  value.clear();
  for (const SettingJson& one : json) {
    if (!take(one, value.emplace_back())) return false;
  }
  return true;
}
template <typename T>
bool take(const SettingJson& json, std::optional<T>& value) {
  return take(json, value.emplace());
}

const char* kind_of(const std::string& /*value*/) { return "text"; }
const char* kind_of(bool /*value*/) { return "true or false"; }
const char* kind_of(std::int64_t /*value*/) { return "a whole number"; }
const char* kind_of(double /*value*/) { return "a number"; }
const char* kind_of(const std::vector<std::string>& /*value*/) { return "a list of strings"; }
template <typename T>
const char* kind_of(const std::optional<T>& /*value*/) {
  return kind_of(T());
}

template <typename T>
SettingJson as_json(const T& value) {
  return value;
}
template <typename T>
SettingJson as_json(const std::optional<T>& value) {
  return value.has_value() ? SettingJson(*value) : SettingJson(nullptr);
}

template <typename T>
SpecField setting(std::string_view name, T ExperimentSpec::* field) {
  return {.name = name,
          .read = [field](const SettingJson& json,
                          ExperimentSpec& spec) { return take(json, spec.*field); },
          .write = [field](const ExperimentSpec& spec) { return as_json(spec.*field); },
          .kind = kind_of(T())};
}

const std::vector<SpecField>& spec_fields() {
  static const std::vector<SpecField> kAll{
      setting("name", &ExperimentSpec::name),
      setting("model", &ExperimentSpec::model),
      setting("dataset", &ExperimentSpec::dataset),
      setting("data", &ExperimentSpec::data),
      setting("dataset_config", &ExperimentSpec::dataset_config),
      setting("split", &ExperimentSpec::split),
      setting("max_samples", &ExperimentSpec::max_samples),
      setting("shuffle_seed", &ExperimentSpec::shuffle_seed),
      setting("chunk_source", &ExperimentSpec::chunk_source),
      setting("chunk_window", &ExperimentSpec::chunk_window),
      setting("prompt_template", &ExperimentSpec::prompt_template),
      setting("similarity_threshold", &ExperimentSpec::similarity_threshold),
      setting("embedding_layers", &ExperimentSpec::embedding_layers),
      setting("embedding_hook", &ExperimentSpec::embedding_hook),
      setting("max_cached_blocks", &ExperimentSpec::max_cached_blocks),
      setting("cache_dir", &ExperimentSpec::cache_dir),
      setting("index_encoder", &ExperimentSpec::index_encoder),
      setting("temperature", &ExperimentSpec::temperature),
      setting("max_tokens", &ExperimentSpec::max_tokens),
      setting("trust_remote_code", &ExperimentSpec::trust_remote_code),
      setting("notes", &ExperimentSpec::notes),
      setting("tensor_parallel_size", &ExperimentSpec::tensor_parallel_size),
      setting("gpu_memory_utilization", &ExperimentSpec::gpu_memory_utilization),
      setting("max_model_len", &ExperimentSpec::max_model_len),
      setting("enable_fusion_cache", &ExperimentSpec::enable_fusion_cache),
      setting("fusion_cache_dir", &ExperimentSpec::fusion_cache_dir),
      setting("enable_semantic_text_cache", &ExperimentSpec::enable_semantic_text_cache),
      setting("preset", &ExperimentSpec::preset),
      setting("index_encoder_device", &ExperimentSpec::index_encoder_device),
      setting("enable_exact_text_cache", &ExperimentSpec::enable_exact_text_cache),
      setting("cache_max_size_gb", &ExperimentSpec::cache_max_size_gb),
      setting("similarity", &ExperimentSpec::similarity),
      setting("vetoes", &ExperimentSpec::vetoes),
      setting("images", &ExperimentSpec::images),
      setting("engine", &ExperimentSpec::engine)};
  return kAll;
}

const SpecField* spec_field_named(std::string_view name) {
  const auto it = std::ranges::find(spec_fields(), name, &SpecField::name);
  return it == spec_fields().end() ? nullptr : &*it;
}

/// null means: not set.
Result<void> apply_settings(const SettingJson& settings, ExperimentSpec& spec) {
  for (const auto& [name, value] : settings.items()) {
    const SpecField* known = spec_field_named(name);
    if (known == nullptr) {
      return malformed(fmt::format("unknown setting \"{}\"", name));
    }
    if (!value.is_null() && !known->read(value, spec)) {
      return malformed(fmt::format("\"{}\" must be {}", name, known->kind));
    }
  }
  return {};
}

bool in_range(double value, double low, double high) { return value >= low && value <= high; }

Result<void> check_ranges(const ExperimentSpec& spec) {
  const struct {
    const char* name;
    bool fine;
    const char* say;
  } kChecks[] = {
      {"max_samples", spec.max_samples >= -1 && spec.max_samples != 0, "-1 for all, or at least 1"},
      {"chunk_window", spec.chunk_window >= 0, "0 for the whole key, or a number of characters"},
      {"max_cached_blocks", spec.max_cached_blocks.value_or(1) >= 1, "at least 1"},
      {"cache_max_size_gb", in_range(spec.cache_max_size_gb.value_or(1), 0.001, 1e6),
       "at least 0.001"},
      {"similarity_threshold", in_range(spec.similarity_threshold, -1, 1), "from -1 to 1"},
      {"temperature", in_range(spec.temperature, 0, 100), "at least 0"},
      {"max_tokens", spec.max_tokens >= 1, "at least 1"},
      {"tensor_parallel_size", spec.tensor_parallel_size >= 1, "at least 1"},
      {"gpu_memory_utilization", in_range(spec.gpu_memory_utilization, 0, 1), "from 0 to 1"},
      {"dataset", dataset_named(spec.dataset).has_value(),
       "gqa, llava150k, video_frames, synthetic or generated"},
      {"similarity",
       spec.similarity == "threshold" || spec.similarity == "learned" || spec.similarity == "watch",
       "threshold, learned or watch"},
      {"images", spec.images == "same" || spec.images == "similar", "same or similar"},
      {"chunk_source", chunk_source_named(spec.chunk_source).has_value(),
       "question, semantic, answer, group, image or combined"}};
  for (const auto& check : kChecks) {
    if (!check.fine) return malformed(fmt::format("\"{}\" must be {}", check.name, check.say));
  }
  return {};
}

/// The name is also the name of a samples file.
Result<void> check_name(const std::string& name) {
  const bool is_file_name =
      !name.empty() && name.size() <= 200 && !name.starts_with('.') &&
      std::ranges::none_of(name, [](char c) {
        return c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ' || c == 0x7F;
      });
  if (is_file_name) return {};
  return malformed(name.empty()
                       ? "an experiment has no \"name\""
                       : fmt::format("\"{}\" cannot be the name of an experiment: its samples are "
                                     "written to a file of this name",
                                     name));
}

Result<void> resolve(ExperimentSpec& spec) {
  AFI_TRY_VOID(check_name(spec.name));
  if (spec.model.empty())
    return malformed("\"model\" is missing, and there is no \"preset\" that sets it");
  if (spec.prompt_template.empty()) spec.prompt_template = kGqaTemplate;
  AFI_TRY_VOID(check_ranges(spec));
  AFI_TRY_VOID(check_template(spec.prompt_template));
  spec.source = *chunk_source_named(spec.chunk_source);
  std::set<std::string> names;
  for (const std::string& text : spec.embedding_layers) {
    AFI_TRY(LayerSpec layer, parse_layer(text));
    if (!names.insert(layer.name).second) {
      return malformed(fmt::format("the layer \"{}\" occurs twice", layer.name));
    }
    spec.layers.push_back(std::move(layer));
  }
  AFI_TRY(spec.hook, parse_hook(spec.embedding_hook));
  return {};
}

Result<const Preset*> preset_of(const SettingJson& settings) {
  const auto it = settings.find("preset");
  if (it == settings.end() || it->is_null()) return nullptr;
  const std::string name = it->is_string() ? it->get<std::string>() : it->dump();
  const auto* const preset = std::ranges::find(kPresets, name, &Preset::name);
  if (preset == kPresets.end()) {
    return malformed(fmt::format("unknown preset \"{}\"; choose from {}", name,
                                 fmt::join(preset_names(), ", ")));
  }
  return preset;
}

/// Defaults, then the preset, then the row.
Result<ExperimentSpec> merged(const SettingJson& defaults, const SettingJson& row) {
  const auto own = row.find("preset");
  AFI_TRY(const Preset* preset, preset_of(own == row.end() || own->is_null() ? defaults : row));
  ExperimentSpec spec;
  AFI_TRY_VOID(apply_settings(defaults, spec));
  if (preset != nullptr) AFI_TRY_VOID(apply_settings(settings_of(*preset), spec));
  AFI_TRY_VOID(apply_settings(row, spec));
  AFI_TRY_VOID(resolve(spec));
  return spec;
}

std::string named(const SettingJson& row, std::size_t number) {
  const auto it = row.find("name");
  return it != row.end() && it->is_string()
             ? fmt::format("experiment \"{}\"", it->get<std::string>())
             : fmt::format("experiment {}", number);
}

template <typename T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<LayerSpec> parse_layer(std::string_view text) {
  constexpr std::size_t kMost = 65'536;
  LayerSpec layer;
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  layer.name = text.substr(0, std::min(first, text.size()));
  const std::string_view dimensions =
      first == std::string_view::npos ? "" : text.substr(first + 1, second - first - 1);
  const bool has_threshold = second != std::string_view::npos;
  if (layer.name.empty() || !parse_number(dimensions, layer.dimensions) || layer.dimensions == 0 ||
      layer.dimensions > kMost ||
      (has_threshold && !parse_number(text.substr(second + 1), layer.threshold)) ||
      !in_range(layer.threshold, -1, 1)) {
    return malformed(fmt::format(
        "\"{}\" is not a layer: use NAME:DIMENSIONS or NAME:DIMENSIONS:THRESHOLD, with up to {} "
        "dimensions and a threshold from -1 to 1",
        text, kMost));
  }
  return layer;
}

std::string_view to_string(CacheMode mode) { return mode == CacheMode::kLive ? "live" : "dry-run"; }

std::optional<CacheMode> cache_mode_named(std::string_view name) {
  if (name == "live") return CacheMode::kLive;
  return name == "dry-run" ? std::optional(CacheMode::kDryRun) : std::nullopt;
}

bool names_encoder(const ExperimentSpec& spec) {
  return spec.index_encoder.ends_with(".gguf") || spec.index_encoder.contains("://");
}

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

Result<ExperimentSpec> make_spec(std::string_view settings_json) {
  const SettingJson settings = SettingJson::parse(settings_json, nullptr, false);
  if (!settings.is_object()) return malformed("the settings are not a JSON object");
  return merged(SettingJson::object(), settings);
}

Result<std::vector<ExperimentSpec>> parse_specs(std::string_view json) {
  const SettingJson whole = SettingJson::parse(json, nullptr, /*allow_exceptions=*/false);
  if (whole.is_discarded()) return malformed("this is not JSON");
  SettingJson defaults = SettingJson::object();
  SettingJson rows = whole;
  if (whole.is_object()) {
    defaults = whole.value("defaults", SettingJson::object());
    rows = whole.value("experiments", SettingJson());
  }
  if (!rows.is_array() || !defaults.is_object()) {
    return malformed(
        R"(a sweep is a list of experiments, or {"defaults": {…}, "experiments": [{…}, …]})");
  }
  std::vector<ExperimentSpec> specs;
  std::set<std::string> names;
  for (const SettingJson& row : rows) {
    const std::string which = row.is_object() ? named(row, specs.size() + 1)
                                              : fmt::format("experiment {}", specs.size() + 1);
    if (!row.is_object()) return malformed(which + " is not an object of settings");
    auto spec = merged(defaults, row);
    if (!spec.has_value()) return malformed(which + ": " + spec.error().message);
    if (!names.insert(spec->name).second) {
      return malformed(fmt::format("two experiments are named \"{}\"", spec->name));
    }
    specs.push_back(*std::move(spec));
  }
  if (specs.empty()) return malformed("the sweep has no experiment");
  return specs;
}

std::string spec_hash(const ExperimentSpec& spec, CacheMode mode) {
  SettingJson all{{"format", "afterimage/experiment/1"}, {"cache_mode", to_string(mode)}};
  for (const SpecField& one : spec_fields()) {
    // The name is compared separately; the place of the data and notes do not change results.
    if (one.name == "name" || one.name == "notes" || one.name == "data") continue;
    // So that experiments of logs from before this setting are found.
    if (one.name == "chunk_window" && spec.chunk_window == 0) continue;
    all[std::string(one.name)] = one.write(spec);
  }
  const std::string text = all.dump(-1, ' ', false, SettingJson::error_handler_t::replace);
  return to_hex(sha256(std::as_bytes(std::span(text))));
}

std::string setting_text(const ExperimentSpec& spec, std::string_view name) {
  const SpecField* known = spec_field_named(name);
  AFI_CHECK(known != nullptr);
  const SettingJson value = known->write(spec);
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_array()) return fmt::format("{}", fmt::join(spec.embedding_layers, ","));
  if (!value.is_string()) return value.dump();
  std::string text;
  for (const char c : value.get<std::string>()) {
    text += name == "prompt_template" && c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text;
}

}  // namespace afterimage
