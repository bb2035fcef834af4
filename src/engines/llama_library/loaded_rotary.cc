// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "engines/llama_library/library.h"

namespace afterimage {
namespace {

/// The index of a GGUF file. Keys are "architecture.name".
class Metadata {
 public:
  Metadata(gguf_context* file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  [[nodiscard]] std::optional<std::uint32_t> number(std::string_view name) const {
    const auto key = find(name);
    if (key < 0 || gguf_get_kv_type(file_, key) != GGUF_TYPE_UINT32) return std::nullopt;
    return gguf_get_val_u32(file_, key);
  }
  [[nodiscard]] std::optional<float> real(std::string_view name) const {
    const auto key = find(name);
    if (key < 0 || gguf_get_kv_type(file_, key) != GGUF_TYPE_FLOAT32) return std::nullopt;
    return gguf_get_val_f32(file_, key);
  }
  [[nodiscard]] std::string text(std::string_view name) const {
    const auto key = find(name);
    if (key < 0 || gguf_get_kv_type(file_, key) != GGUF_TYPE_STRING) return "";
    return gguf_get_val_str(file_, key);
  }
  /// At most four numbers, of any 32-bit type.
  [[nodiscard]] std::array<std::uint32_t, 4> numbers(std::string_view name) const {
    std::array<std::uint32_t, 4> found{};
    const auto key = find(name);
    if (key < 0 || gguf_get_kv_type(file_, key) != GGUF_TYPE_ARRAY) return found;
    const auto type = gguf_get_arr_type(file_, key);
    if (type != GGUF_TYPE_INT32 && type != GGUF_TYPE_UINT32) return found;
    const auto* const from = static_cast<const std::uint32_t*>(gguf_get_arr_data(file_, key));
    std::copy_n(from, std::min<std::size_t>(gguf_get_arr_n(file_, key), found.size()),
                found.begin());
    return found;
  }
  [[nodiscard]] bool has(std::string_view name) const { return find(name) >= 0; }
  /// Whether a tensor of the file has factors for single pairs.
  [[nodiscard]] bool has_factors() const {
    for (std::int64_t i = 0; i < gguf_get_n_tensors(file_); ++i) {
      const std::string_view name = gguf_get_tensor_name(file_, i);
      if (name.contains("rope_freqs") || name.contains("rope_factors")) return true;
    }
    return false;
  }

 private:
  [[nodiscard]] std::int64_t find(std::string_view name) const {
    return gguf_find_key(file_, (architecture_ + "." + std::string(name)).c_str());
  }

  gguf_context* file_;
  std::string architecture_;
};

std::string architecture_of(const gguf_context* file) {
  const auto key = gguf_find_key(file, "general.architecture");
  return key < 0 || gguf_get_kv_type(file, key) != GGUF_TYPE_STRING ? ""
                                                                    : gguf_get_val_str(file, key);
}

std::string unsupported(const Metadata& file) {
  if (file.has_factors()) return "its rotary embeddings have a factor for each pair";
  const std::string scaling = file.text("rope.scaling.type");
  if (!scaling.empty() && scaling != "none" && scaling != "linear") {
    return "its rotary embeddings are scaled in the way '" + scaling + "'";
  }
  if (file.has("attention.key_length_mla") || file.has("attention.kv_lora_rank")) {
    return "its keys are compressed (MLA)";
  }
  return "";
}

std::optional<RotaryFacts::Kind> kind_of(const llama_model* model) {
  switch (llama_model_rope_type(model)) {
    case LLAMA_ROPE_TYPE_NORM:
      return RotaryFacts::Kind::kNeighbours;
    case LLAMA_ROPE_TYPE_NEOX:
      return RotaryFacts::Kind::kHalves;
    case LLAMA_ROPE_TYPE_MROPE:
      return RotaryFacts::Kind::kSections;
    case LLAMA_ROPE_TYPE_IMROPE:
      return RotaryFacts::Kind::kInterleaved;
    default:
      return std::nullopt;
  }
}

}  // namespace

RotaryFacts rotary_facts(const std::string& path, const llama_model* model) {
  RotaryFacts facts;
  const Owned<gguf_context, gguf_free> file(
      gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}));
  const auto kind = kind_of(model);
  if (file == nullptr || !kind.has_value()) {
    facts.unsupported = "it has no rotary embeddings";
    return facts;
  }
  const Metadata metadata(file.get(), architecture_of(file.get()));
  const auto heads = static_cast<std::uint32_t>(std::max(llama_model_n_head(model), 1));
  const auto width = static_cast<std::uint32_t>(llama_model_n_embd(model));
  facts.kind = *kind;
  facts.head_size = metadata.number("attention.key_length").value_or(width / heads);
  facts.turned = metadata.number("rope.dimension_count").value_or(facts.head_size);
  facts.base = metadata.real("rope.freq_base").value_or(10'000.0F);
  const bool is_scaled = metadata.text("rope.scaling.type") != "none";
  facts.scale = is_scaled ? llama_model_rope_freq_scale_train(model) : 1.0F;
  facts.sections = metadata.numbers("rope.dimension_sections");
  facts.unsupported = unsupported(metadata);
  return facts;
}

}  // namespace afterimage
