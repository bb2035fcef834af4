// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "engines/llama_kernels/kernel_table.h"
#include "ggml-cpu/traits.h"
#include "ggml.h"

extern "C" {
// Of ggml-cpu; in none of its headers that can be included alone.
void ggml_barrier(struct ggml_threadpool* pool);
void ggml_threadpool_chunk_set(struct ggml_threadpool* pool, int value);
int ggml_threadpool_chunk_add(struct ggml_threadpool* pool, int value);
}

/// Operations of the library's graphs that our kernels compute, and what their files share.
namespace afterimage {

/// Who computes an operation of this kind; nullptr: the library does, our kernels can't.
ggml::cpu::tensor_traits* product_traits(const ggml_tensor* op);
ggml::cpu::tensor_traits* expert_product_traits(const ggml_tensor* op);
ggml::cpu::tensor_traits* attention_traits(const ggml_tensor* op);

/// nullptr: the library's own.
const LlamaKernels* kernels_in_use();

/// nullopt: the kernels don't know the format.
std::optional<WeightType> weight_type(ggml_type type);

inline constexpr std::size_t kAlignment = 64;

inline std::size_t aligned(std::size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }
inline std::byte* aligned(void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return static_cast<std::byte*>(at) + (aligned(address) - address);
}

inline std::size_t to_size(std::int64_t n) { return static_cast<std::size_t>(n); }

inline const std::byte* row_at(const ggml_tensor* tensor, std::size_t i1, std::size_t i2,
                               std::size_t i3) {
  return static_cast<const std::byte*>(tensor->data) + i1 * tensor->nb[1] + i2 * tensor->nb[2] +
         i3 * tensor->nb[3];
}

inline bool has_whole_rows(const ggml_tensor* tensor) {
  return tensor->nb[0] == ggml_type_size(tensor->type);
}

/// Gives the threads of a graph one item after the other.
class Items {
 public:
  /// Called by every thread; returns when all have called it.
  Items(const ggml_compute_params& params, std::size_t count)
      : pool_(params.threadpool), next_(to_size(params.ith)), count_(count) {
    if (params.ith == 0) ggml_threadpool_chunk_set(pool_, params.nth);
    ggml_barrier(pool_);
  }

  std::optional<std::size_t> next() {
    if (next_ >= count_) return std::nullopt;
    return std::exchange(next_, to_size(ggml_threadpool_chunk_add(pool_, 1)));
  }

 private:
  ggml_threadpool* pool_;
  std::size_t next_;
  std::size_t count_;
};

}  // namespace afterimage
