// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <cstring>

#include "engines/llama_kernels/kernels.h"
#include "engines/llama_kernels/library_operations.h"

namespace afterimage {
namespace {

bool is_float(ggml_type type) {
  return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

/// A product: weights in src[0], rows of activations in src[1].
class Product : public ggml::cpu::tensor_traits {
 public:
  static bool computes(const ggml_tensor* op) {
    const ggml_tensor* const weights = op->src[0];
    const ggml_tensor* const rows = op->src[1];
    constexpr int kHint = 1;  // operand of the operation: the weights are a Hadamard matrix
    constexpr std::int64_t kWidest = 1 << 16;
    std::int32_t hint = 0;
    std::memcpy(&hint, op->op_params + kHint, sizeof hint);
    return weight_type(weights->type).has_value() && is_float(rows->type) && hint == 0 &&
           op->type == GGML_TYPE_F32 && has_whole_rows(weights) && has_whole_rows(rows) &&
           weights->ne[0] <= kWidest && op->nb[0] == sizeof(float);
  }

  bool work_size(int threads, const ggml_tensor* op, std::size_t& bytes) override {
    const ggml_tensor* const rows = op->src[1];
    bytes = kAlignment + to_size(ggml_nrows(rows)) * packed_row(op) +
            to_size(threads) * std::max(kProductScratch, to_size(rows->ne[0]) * sizeof(float));
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const LlamaKernels& kernels = *kernels_in_use();
    std::byte* const packed = aligned(params->wdata);
    const std::size_t packed_size = to_size(ggml_nrows(op->src[1])) * packed_row(op);
    std::byte* const scratch =
        packed + packed_size +
        to_size(params->ith) *
            std::max(kProductScratch, aligned(to_size(op->src[1]->ne[0]) * sizeof(float)));
    pack(kernels, *params, op, packed, scratch);
    multiply(kernels, *params, op, packed, scratch);
    return true;
  }

 private:
  static std::size_t packed_row(const ggml_tensor* op) {
    return packed_bytes(*weight_type(op->src[0]->type), to_size(op->src[0]->ne[0]));
  }

  /// Each thread packs a part of all rows.
  static void pack(const LlamaKernels& kernels, const ggml_compute_params& params,
                   const ggml_tensor* op, std::byte* packed, std::byte* scratch) {
    const WeightType type = *weight_type(op->src[0]->type);
    const ggml_tensor* const rows = op->src[1];
    const std::size_t inner = to_size(rows->ne[0]);
    const std::size_t units = (inner + pack_unit(type) - 1) / pack_unit(type);
    const std::size_t all = units * to_size(ggml_nrows(rows));
    std::size_t unit = all * to_size(params.ith) / to_size(params.nth);
    const std::size_t end = all * to_size(params.ith + 1) / to_size(params.nth);
    while (unit < end) {
      const std::size_t row = unit / units;
      const std::size_t first = unit % units;
      const std::size_t last = std::min(units, first + (end - unit));
      const std::size_t i1 = row % to_size(rows->ne[1]);
      const std::size_t i2 = row / to_size(rows->ne[1]) % to_size(rows->ne[2]);
      const std::size_t i3 = row / to_size(rows->ne[1]) / to_size(rows->ne[2]);
      const std::byte* const from = row_at(rows, i1, i2, i3);
      const auto* numbers = reinterpret_cast<const float*>(from);
      if (rows->type != GGML_TYPE_F32) {
        auto* const wide = reinterpret_cast<float*>(scratch);
        ggml_get_type_traits(rows->type)->to_float(from, wide, rows->ne[0]);
        numbers = wide;
      }
      kernels.pack(type, numbers, inner, first, last, packed + row * packed_row(op));
      unit += last - first;
    }
  }

  /// Weight rows of an item. With few columns a thread reads weights that lie together, because the
  /// kernels fetch those that follow: they must not be another thread's.
  static std::size_t step_of(std::size_t rows, std::size_t columns, std::size_t threads) {
    constexpr std::size_t kTile = 32;
    constexpr std::size_t kFewColumns = 8;
    constexpr std::size_t kItemsPerThread = 8;
    if (columns > kFewColumns) return kTile;
    return std::max<std::size_t>(1, rows / (kTile * kItemsPerThread * threads)) * kTile;
  }

  static void multiply(const LlamaKernels& kernels, const ggml_compute_params& params,
                       ggml_tensor* op, const std::byte* packed, std::byte* scratch) {
    const ggml_tensor* const weights = op->src[0];
    const ggml_tensor* const rows = op->src[1];
    const std::size_t count = to_size(rows->ne[1]);
    const std::size_t outputs = to_size(weights->ne[1]);
    const std::size_t matrices = to_size(rows->ne[2]) * to_size(rows->ne[3]);
    constexpr std::size_t kFewestColumns = 96;  // that are worth unpacking weights again
    constexpr std::size_t kItemsPerThread = 4;
    const std::size_t step = step_of(outputs * matrices, count, to_size(params.nth));
    const std::size_t steps = (outputs + step - 1) / step;
    std::size_t parts = 1;
    while (steps * matrices * parts < kItemsPerThread * to_size(params.nth) &&
           count / (parts + 1) >= kFewestColumns) {
      ++parts;
    }
    Items items(params, steps * matrices * parts);
    while (const auto item = items.next()) {
      const std::size_t row = *item % steps * step;
      const std::size_t part = *item / steps % parts;
      const std::size_t matrix = *item / steps / parts;
      const std::size_t i2 = matrix % to_size(rows->ne[2]);
      const std::size_t i3 = matrix / to_size(rows->ne[2]);
      const std::size_t begin = count * part / parts;
      const std::size_t end = count * (part + 1) / parts;
      kernels.multiply(
          {.type = *weight_type(weights->type),
           .data = row_at(weights, row, i2 / (to_size(rows->ne[2]) / to_size(weights->ne[2])),
                          i3 / (to_size(rows->ne[3]) / to_size(weights->ne[3]))),
           .row_bytes = weights->nb[1],
           .inner = to_size(weights->ne[0])},
          std::min(step, outputs - row),
          {.packed = packed + (matrix * count + begin) * packed_row(op),
           .packed_bytes = packed_row(op),
           .count = end - begin,
           .out =
               const_cast<float*>(reinterpret_cast<const float*>(row_at(op, begin, i2, i3))) + row,
           .out_stride = op->nb[1] / sizeof(float)},
          scratch);
    }
  }
};

}  // namespace

ggml::cpu::tensor_traits* product_traits(const ggml_tensor* op) {
  static Product traits;
  return Product::computes(op) ? &traits : nullptr;
}

}  // namespace afterimage
