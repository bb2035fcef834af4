// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/testing/quantized_model.h"

#include <gtest/gtest.h>
#include <llama.h>

#include <filesystem>
#include <map>

#include "testing/demo_models.h"
#include "testing/temporary_folder.h"

namespace afterimage::testing {
namespace {

const std::map<std::string, std::pair<llama_ftype, ggml_type>> kTypes = {
    {"F32", {LLAMA_FTYPE_ALL_F32, GGML_TYPE_F32}},
    {"F16", {LLAMA_FTYPE_MOSTLY_F16, GGML_TYPE_F16}},
    {"BF16", {LLAMA_FTYPE_MOSTLY_BF16, GGML_TYPE_BF16}},
    {"Q8_0", {LLAMA_FTYPE_MOSTLY_Q8_0, GGML_TYPE_Q8_0}},
    {"Q4_0", {LLAMA_FTYPE_MOSTLY_Q4_0, GGML_TYPE_Q4_0}},
    {"Q5_0", {LLAMA_FTYPE_MOSTLY_Q5_0, GGML_TYPE_Q5_0}},
    {"Q4_K", {LLAMA_FTYPE_MOSTLY_Q4_K_S, GGML_TYPE_Q4_K}},
    {"Q5_K", {LLAMA_FTYPE_MOSTLY_Q5_K_S, GGML_TYPE_Q5_K}},
    {"Q6_K", {LLAMA_FTYPE_MOSTLY_Q6_K, GGML_TYPE_Q6_K}},
    {"IQ4_NL", {LLAMA_FTYPE_MOSTLY_IQ4_NL, GGML_TYPE_IQ4_NL}},
    {"MXFP4", {LLAMA_FTYPE_MOSTLY_MXFP4_MOE, GGML_TYPE_MXFP4}}};

}  // namespace

LlamaOptions quantized_options(const std::string& type) {
  static const TemporaryFolder folder;
  LlamaOptions options = demo_options("wide");
  const std::string made = folder.file(type + ".gguf");
  if (!std::filesystem::exists(made)) {
    const auto& [file_type, tensor_type] = kTypes.at(type);
    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.nthread = 1;
    params.ftype = file_type;
    params.output_tensor_type = params.token_embedding_type = tensor_type;
    params.pure = true;
    EXPECT_EQ(llama_model_quantize(options.model.c_str(), made.c_str(), &params), 0U) << type;
  }
  options.model = made;
  return options;
}

}  // namespace afterimage::testing
