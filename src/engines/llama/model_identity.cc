// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/model_identity.h"

#include <fmt/format.h>

#include <cstddef>
#include <exception>
#include <stop_token>
#include <utility>

#include "engines/llama_library/file_name.h"

namespace afterimage {
namespace {

DType dtype_of(const std::string& kv_type) {
  if (kv_type == "f32") return DType::kF32;
  if (kv_type == "bf16") return DType::kBF16;
  return kv_type == "f16" ? DType::kF16 : DType::kU8;
}

Result<ModelFiles::Names> read_names(const LlamaOptions& options, const std::stop_token& stop) {
  ModelFiles::Names names;
  AFI_TRY(names.weights, content_name(options.model, stop));
  if (!options.mmproj.empty()) {
    AFI_TRY(names.encoder, content_name(options.mmproj, stop));
  }
  for (const LlamaAdapter& adapter : options.adapters) {
    AFI_TRY(std::string name, content_name(adapter.path, stop));
    names.adapters.push_back(std::move(name));
  }
  return names;
}

}  // namespace

ModelFiles::ModelFiles(const LlamaOptions& options)
    : reader_([this, &options](const std::stop_token& stop) {
        try {
          promise_.set_value(read_names(options, stop));
        } catch (...) {  // no memory
          promise_.set_exception(std::current_exception());
        }
      }) {}

ModelIdentity identity_of(const LlamaOptions& options, const LoadedModel& model,
                          const ModelFiles::Names& files, bool exact) {
  const ModelFacts& facts = model.facts();
  const std::string library = facts.library + " revision " + kLlamaRevision;
  ModelIdentity identity;
  identity.model = facts.architecture + " " + files.weights;
  // The context size is included because it changes the rotary scaling of some models.
  identity.weights_epoch = library + (exact ? " exact" : "") +
                           (facts.fused_attention ? " fused" : "") + " k=" + options.keys +
                           " v=" + options.values +
                           " context=" + std::to_string(options.context.value()) +
                           " gpu=" + std::to_string(options.gpu_layers);
  identity.encoder = "none";  // not empty: an unnamed encoder disables caching
  if (!files.encoder.empty()) {
    identity.encoder = files.encoder + " " + library + " gpu=" + std::to_string(options.gpu_layers);
  }
  for (std::size_t i = 0; i < options.adapters.size(); ++i) {
    // All significant digits.
    identity.adapter += fmt::format("{}*{};", files.adapters[i], options.adapters[i].scale);
  }
  identity.chat_template = model.chat_template();
  if (options.thinks.has_value()) {
    identity.chat_template += *options.thinks ? " reasoning on" : " reasoning off";
  }
  identity.kv_dtype = dtype_of(options.keys);
  return identity;
}

}  // namespace afterimage
