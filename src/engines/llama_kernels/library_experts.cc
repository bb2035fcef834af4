// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <cstring>

#include "engines/llama_kernels/kernels.h"
#include "engines/llama_kernels/library_operations.h"

namespace afterimage {
namespace {

/// A product of each row of activations with the matrices of the experts that were chosen for it:
/// matrices in src[0], rows in src[1], their experts in src[2].
class ExpertProduct : public ggml::cpu::tensor_traits {
 public:
  static bool computes(const ggml_tensor* op) {
    const ggml_tensor* const weights = op->src[0];
    const ggml_tensor* const rows = op->src[1];
    return weight_type(weights->type).has_value() && rows->type == GGML_TYPE_F32 &&
           op->type == GGML_TYPE_F32 && has_whole_rows(weights) && has_whole_rows(rows) &&
           op->src[2]->type == GGML_TYPE_I32 && op->nb[0] == sizeof(float);
  }

  bool work_size(int threads, const ggml_tensor* op, std::size_t& bytes) override {
    const Shape shape(op);
    bytes = kAlignment + shape.choice_bytes() + shape.pairs * shape.packed_row +
            to_size(threads) * shape.scratch_bytes();
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const LlamaKernels& kernels = *kernels_in_use();
    const Shape shape(op);
    std::byte* const start = aligned(params->wdata);
    std::byte* const packed = start + shape.choice_bytes();
    std::byte* const scratch =
        packed + shape.pairs * shape.packed_row + to_size(params->ith) * shape.scratch_bytes();
    const Choices choices(start, shape);
    if (params->ith == 0) choices.sort(op, shape);
    ggml_barrier(params->threadpool);
    pack(kernels, *params, op, shape, choices, packed);
    multiply(kernels, *params, op, shape, choices, packed, scratch);
    return true;
  }

 private:
  static constexpr std::size_t kStep = 32;  // weight rows of an item

  struct Shape {
    explicit Shape(const ggml_tensor* op)
        : inner(to_size(op->src[0]->ne[0])),
          outputs(to_size(op->src[0]->ne[1])),
          experts(to_size(op->src[0]->ne[2])),
          chosen(to_size(op->src[2]->ne[0])),
          pairs(chosen * to_size(op->src[2]->ne[1])),
          packed_row(packed_bytes(*weight_type(op->src[0]->type), inner)) {}

    [[nodiscard]] std::size_t choice_bytes() const {
      return aligned((2 * experts + 2 + pairs) * sizeof(std::uint32_t));
    }
    /// Of a thread: the kernel's, and the results of an item.
    [[nodiscard]] std::size_t scratch_bytes() const {
      return kProductScratch + aligned(pairs * kStep * sizeof(float));
    }

    std::size_t inner, outputs, experts;
    std::size_t chosen;  // experts of a token
    std::size_t pairs;   // of a token and an expert: token * chosen + place among its experts
    std::size_t packed_row;
  };

  /// The pairs of each expert, one expert after the other.
  struct Choices {
    Choices(std::byte* memory, const Shape& shape)
        : begin(reinterpret_cast<std::uint32_t*>(memory)),
          used(begin + shape.experts + 1),
          count(used + shape.experts),
          pairs(count + 1) {}

    void sort(const ggml_tensor* op, const Shape& shape) const {
      std::fill_n(begin, shape.experts + 1, 0U);
      for (std::size_t pair = 0; pair < shape.pairs; ++pair) ++begin[expert(op, shape, pair) + 1];
      *count = 0;
      for (std::size_t e = 0; e < shape.experts; ++e) {
        if (begin[e + 1] != 0) used[(*count)++] = static_cast<std::uint32_t>(e);
        begin[e + 1] += begin[e];
      }
      for (std::size_t pair = shape.pairs; pair-- > 0;) {
        pairs[--begin[expert(op, shape, pair) + 1]] = static_cast<std::uint32_t>(pair);
      }
      // Each end has become the expert's begin: move them back.
      for (std::size_t e = 0; e < shape.experts; ++e) begin[e] = begin[e + 1];
      begin[shape.experts] = static_cast<std::uint32_t>(shape.pairs);
    }

    static std::size_t expert(const ggml_tensor* op, const Shape& shape, std::size_t pair) {
      std::int32_t id = 0;
      std::memcpy(
          &id,
          row_at(op->src[2], pair / shape.chosen, 0, 0) + pair % shape.chosen * op->src[2]->nb[0],
          sizeof id);
      return to_size(id);
    }

    std::uint32_t* begin;  // of each expert's pairs, and the end of the last one's
    std::uint32_t* used;   // experts that have pairs
    std::uint32_t* count;  // of those
    std::uint32_t* pairs;
  };

  /// Rows in the order of Choices::pairs, so that those of an expert lie side by side.
  static void pack(const LlamaKernels& kernels, const ggml_compute_params& params,
                   const ggml_tensor* op, const Shape& shape, const Choices& choices,
                   std::byte* packed) {
    const WeightType type = *weight_type(op->src[0]->type);
    const std::size_t units = (shape.inner + pack_unit(type) - 1) / pack_unit(type);
    for (std::size_t i = to_size(params.ith); i < shape.pairs; i += to_size(params.nth)) {
      const std::size_t pair = choices.pairs[i];
      const auto* const row = reinterpret_cast<const float*>(row_at(
          op->src[1], pair % shape.chosen % to_size(op->src[1]->ne[1]), pair / shape.chosen, 0));
      kernels.pack(type, row, shape.inner, 0, units, packed + i * shape.packed_row);
    }
  }

  static void multiply(const LlamaKernels& kernels, const ggml_compute_params& params,
                       ggml_tensor* op, const Shape& shape, const Choices& choices,
                       const std::byte* packed, std::byte* scratch) {
    const ggml_tensor* const weights = op->src[0];
    const std::size_t steps = (shape.outputs + kStep - 1) / kStep;
    auto* const results = reinterpret_cast<float*>(scratch + kProductScratch);
    Items items(params, steps * *choices.count);
    while (const auto item = items.next()) {
      const std::size_t expert = choices.used[*item / steps];
      const std::size_t row = *item % steps * kStep;
      const std::size_t rows = std::min(kStep, shape.outputs - row);
      const std::size_t first = choices.begin[expert];
      const std::size_t count = choices.begin[expert + 1] - first;
      kernels.multiply({.type = *weight_type(weights->type),
                        .data = row_at(weights, row, expert, 0),
                        .row_bytes = weights->nb[1],
                        .inner = shape.inner},
                       rows,
                       {.packed = packed + first * shape.packed_row,
                        .packed_bytes = shape.packed_row,
                        .count = count,
                        .out = results,
                        .out_stride = kStep},
                       scratch);
      for (std::size_t c = 0; c < count; ++c) {
        const std::size_t pair = choices.pairs[first + c];
        std::memcpy(
            const_cast<std::byte*>(row_at(op, pair % shape.chosen, pair / shape.chosen, 0)) +
                row * sizeof(float),
            results + c * kStep, rows * sizeof(float));
      }
    }
  }
};

}  // namespace

ggml::cpu::tensor_traits* expert_product_traits(const ggml_tensor* op) {
  static ExpertProduct traits;
  return ExpertProduct::computes(op) ? &traits : nullptr;
}

}  // namespace afterimage
