// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_kernels/library_kernels.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

#include "engines/llama_kernels/kernels.h"
#include "engines/llama_kernels/library_operations.h"

namespace afterimage {
namespace {

std::atomic<const LlamaKernels*> used_kernels = nullptr;

/// Through this the backend asks for each operation who computes it. It is a type of buffers by the
/// backend's interface only: no weights are kept in one.
class Kernels : public ggml::cpu::extra_buffer_type {
 public:
  bool supports_op(ggml_backend_dev_t /*device*/, const ggml_tensor* /*op*/) override {
    return false;
  }

  ggml::cpu::tensor_traits* get_tensor_traits(const ggml_tensor* op) override {
    if (used_kernels.load(std::memory_order_relaxed) == nullptr) return nullptr;
    if (op->op == GGML_OP_MUL_MAT) return product_traits(op);
    if (op->op == GGML_OP_MUL_MAT_ID) return expert_product_traits(op);
    if (op->op == GGML_OP_FLASH_ATTN_EXT) return attention_traits(op);
    return nullptr;
  }
};

const char* buffer_name(ggml_backend_buffer_type_t /*type*/) { return "Afterimage"; }
ggml_backend_buffer_t no_buffer(ggml_backend_buffer_type_t /*type*/, std::size_t /*size*/) {
  return nullptr;
}
std::size_t alignment(ggml_backend_buffer_type_t /*type*/) { return kAlignment; }

void offer_to_library() {
  static Kernels kernels;
  static ggml_backend_buffer_type type = {.iface = {.get_name = buffer_name,
                                                    .alloc_buffer = no_buffer,
                                                    .get_alignment = alignment,
                                                    .get_max_size = nullptr,
                                                    .get_alloc_size = nullptr,
                                                    .is_host = nullptr},
                                          .device = nullptr,
                                          .context = &kernels};
  type.device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  ggml_backend_cpu_get_extra_buffer_types().push_back(&type);
}

}  // namespace

Result<void> use_batch_independent_kernels(std::string_view name) {
  if (name == "library") {
    used_kernels = nullptr;
    return {};
  }
  const auto tables = supported_llama_kernels();
  const auto found = std::ranges::find_if(
      tables, [&](const LlamaKernels* table) { return name.empty() || table->name == name; });
  if (found == tables.end()) {
    if (name.empty()) return {};
    return fail(ErrorCode::kUnsupported,
                "this machine's processor has no kernels named \"" + std::string(name) + "\"");
  }
  use_kernels(*found);
  return {};
}

std::string_view batch_independent_kernels() {
  const LlamaKernels* const table = used_kernels;
  return table == nullptr ? "" : table->name;
}

void use_kernels(const LlamaKernels* table) {
  static std::once_flag once;
  std::call_once(once, offer_to_library);
  used_kernels = table;
}

const LlamaKernels* kernels_in_use() { return used_kernels.load(std::memory_order_relaxed); }

std::optional<WeightType> weight_type(ggml_type type) {
  switch (type) {
    case GGML_TYPE_F32:
      return WeightType::kF32;
    case GGML_TYPE_F16:
      return WeightType::kF16;
    case GGML_TYPE_BF16:
      return WeightType::kBF16;
    case GGML_TYPE_Q8_0:
      return WeightType::kQ8_0;
    case GGML_TYPE_Q5_0:
      return WeightType::kQ5_0;
    case GGML_TYPE_Q4_0:
      return WeightType::kQ4_0;
    case GGML_TYPE_IQ4_NL:
      return WeightType::kIQ4NL;
    case GGML_TYPE_MXFP4:
      return WeightType::kMXFP4;
    case GGML_TYPE_Q4_K:
      return WeightType::kQ4K;
    case GGML_TYPE_Q5_K:
      return WeightType::kQ5K;
    case GGML_TYPE_Q6_K:
      return WeightType::kQ6K;
    default:
      return std::nullopt;
  }
}

}  // namespace afterimage
