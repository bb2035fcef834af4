// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_kernels/library_kernels.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "engines/llama_kernels/kernels.h"
#include "ggml-cpu/traits.h"
#include "ggml.h"

extern "C" {
// Of ggml-cpu; in none of its headers that can be included alone.
void ggml_barrier(struct ggml_threadpool* pool);
void ggml_threadpool_chunk_set(struct ggml_threadpool* pool, int value);
int ggml_threadpool_chunk_add(struct ggml_threadpool* pool, int value);
}

namespace afterimage {
namespace {

std::atomic<const LlamaKernels*> used_kernels = nullptr;

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }
std::byte* aligned(void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return static_cast<std::byte*>(at) + (aligned(address) - address);
}
std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

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

const std::byte* at(const ggml_tensor* tensor, std::size_t i1, std::size_t i2, std::size_t i3) {
  return static_cast<const std::byte*>(tensor->data) + i1 * tensor->nb[1] + i2 * tensor->nb[2] +
         i3 * tensor->nb[3];
}

bool has_whole_rows(const ggml_tensor* tensor) {
  return tensor->nb[0] == ggml_type_size(tensor->type);
}

bool is_float(ggml_type type) {
  return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

/// Gives the threads of a graph one item after the other.
class Items {
 public:
  /// Called by every thread; returns when all have called it.
  Items(const ggml_compute_params& params, std::size_t count)
      : pool_(params.threadpool), next_(size(params.ith)), count_(count) {
    if (params.ith == 0) ggml_threadpool_chunk_set(pool_, params.nth);
    ggml_barrier(pool_);
  }

  std::optional<std::size_t> next() {
    if (next_ >= count_) return std::nullopt;
    return std::exchange(next_, size(ggml_threadpool_chunk_add(pool_, 1)));
  }

 private:
  ggml_threadpool* pool_;
  std::size_t next_;
  std::size_t count_;
};

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
    bytes = kAlignment + size(ggml_nrows(rows)) * packed_row(op) +
            size(threads) * std::max(kProductScratch, size(rows->ne[0]) * sizeof(float));
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const LlamaKernels& kernels = *used_kernels.load(std::memory_order_relaxed);
    std::byte* const packed = aligned(params->wdata);
    const std::size_t packed_size = size(ggml_nrows(op->src[1])) * packed_row(op);
    std::byte* const scratch =
        packed + packed_size +
        size(params->ith) *
            std::max(kProductScratch, aligned(size(op->src[1]->ne[0]) * sizeof(float)));
    pack(kernels, *params, op, packed, scratch);
    multiply(kernels, *params, op, packed, scratch);
    return true;
  }

 private:
  static std::size_t packed_row(const ggml_tensor* op) {
    return packed_bytes(*weight_type(op->src[0]->type), size(op->src[0]->ne[0]));
  }

  /// Each thread packs a part of all rows.
  static void pack(const LlamaKernels& kernels, const ggml_compute_params& params,
                   const ggml_tensor* op, std::byte* packed, std::byte* scratch) {
    const WeightType type = *weight_type(op->src[0]->type);
    const ggml_tensor* const rows = op->src[1];
    const std::size_t inner = size(rows->ne[0]);
    const std::size_t units = (inner + pack_unit(type) - 1) / pack_unit(type);
    const std::size_t all = units * size(ggml_nrows(rows));
    std::size_t unit = all * size(params.ith) / size(params.nth);
    const std::size_t end = all * size(params.ith + 1) / size(params.nth);
    while (unit < end) {
      const std::size_t row = unit / units;
      const std::size_t first = unit % units;
      const std::size_t last = std::min(units, first + (end - unit));
      const std::size_t i1 = row % size(rows->ne[1]);
      const std::size_t i2 = row / size(rows->ne[1]) % size(rows->ne[2]);
      const std::size_t i3 = row / size(rows->ne[1]) / size(rows->ne[2]);
      const std::byte* const from = at(rows, i1, i2, i3);
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
    const std::size_t count = size(rows->ne[1]);
    const std::size_t outputs = size(weights->ne[1]);
    const std::size_t matrices = size(rows->ne[2]) * size(rows->ne[3]);
    constexpr std::size_t kFewestColumns = 96;  // that are worth unpacking weights again
    constexpr std::size_t kItemsPerThread = 4;
    const std::size_t step = step_of(outputs * matrices, count, size(params.nth));
    const std::size_t steps = (outputs + step - 1) / step;
    std::size_t parts = 1;
    while (steps * matrices * parts < kItemsPerThread * size(params.nth) &&
           count / (parts + 1) >= kFewestColumns) {
      ++parts;
    }
    Items items(params, steps * matrices * parts);
    while (const auto item = items.next()) {
      const std::size_t row = *item % steps * step;
      const std::size_t part = *item / steps % parts;
      const std::size_t matrix = *item / steps / parts;
      const std::size_t i2 = matrix % size(rows->ne[2]);
      const std::size_t i3 = matrix / size(rows->ne[2]);
      const std::size_t begin = count * part / parts;
      const std::size_t end = count * (part + 1) / parts;
      kernels.multiply(
          {.type = *weight_type(weights->type),
           .data = at(weights, row, i2 / (size(rows->ne[2]) / size(weights->ne[2])),
                      i3 / (size(rows->ne[3]) / size(weights->ne[3]))),
           .row_bytes = weights->nb[1],
           .inner = size(weights->ne[0])},
          std::min(step, outputs - row),
          {.packed = packed + (matrix * count + begin) * packed_row(op),
           .packed_bytes = packed_row(op),
           .count = end - begin,
           .out = const_cast<float*>(reinterpret_cast<const float*>(at(op, begin, i2, i3))) + row,
           .out_stride = op->nb[1] / sizeof(float)},
          scratch);
    }
  }
};

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
            size(threads) * shape.scratch_bytes();
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const LlamaKernels& kernels = *used_kernels.load(std::memory_order_relaxed);
    const Shape shape(op);
    std::byte* const start = aligned(params->wdata);
    std::byte* const packed = start + shape.choice_bytes();
    std::byte* const scratch =
        packed + shape.pairs * shape.packed_row + size(params->ith) * shape.scratch_bytes();
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
        : inner(size(op->src[0]->ne[0])),
          outputs(size(op->src[0]->ne[1])),
          experts(size(op->src[0]->ne[2])),
          chosen(size(op->src[2]->ne[0])),
          pairs(chosen * size(op->src[2]->ne[1])),
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
          &id, at(op->src[2], pair / shape.chosen, 0, 0) + pair % shape.chosen * op->src[2]->nb[0],
          sizeof id);
      return size(id);
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
    for (std::size_t i = size(params.ith); i < shape.pairs; i += size(params.nth)) {
      const std::size_t pair = choices.pairs[i];
      const auto* const row = reinterpret_cast<const float*>(
          at(op->src[1], pair % shape.chosen % size(op->src[1]->ne[1]), pair / shape.chosen, 0));
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
                        .data = at(weights, row, expert, 0),
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
        std::memcpy(const_cast<std::byte*>(at(op, pair % shape.chosen, pair / shape.chosen, 0)) +
                        row * sizeof(float),
                    results + c * kStep, rows * sizeof(float));
      }
    }
  }
};

/// Attention: queries, keys, values, mask and sinks in src[0] to src[4].
class Attention : public ggml::cpu::tensor_traits {
 public:
  static bool computes(const ggml_tensor* op) {
    const ggml_tensor* const queries = op->src[0];
    const ggml_tensor* const mask = op->src[3];
    for (const ggml_tensor* const cache : {op->src[1], op->src[2]}) {
      if (!has_whole_rows(cache) || cache->ne[2] != op->src[1]->ne[2]) return false;
      if (cache->type != GGML_TYPE_F32 && ggml_get_type_traits(cache->type)->to_float == nullptr) {
        return false;
      }
    }
    return queries->type == GGML_TYPE_F32 && has_whole_rows(queries) &&
           (mask == nullptr || (mask->type == GGML_TYPE_F16 && mask->ne[2] == 1)) &&
           op->nb[0] == sizeof(float);
  }

  bool work_size(int threads, const ggml_tensor* op, std::size_t& bytes) override {
    const Shape shape(op, threads);
    bytes = kAlignment + shape.saved_bytes() + size(threads) * shape.scratch_bytes();
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const LlamaKernels& kernels = *used_kernels.load(std::memory_order_relaxed);
    const Shape shape(op, params->nth);
    std::byte* const saved = aligned(params->wdata);
    std::byte* const scratch =
        saved + shape.saved_bytes() + size(params->ith) * shape.scratch_bytes();
    if (shape.splits) {
      attend_by_chunks(kernels, *params, op, shape, saved, scratch);
    } else {
      attend_by_rows(kernels, *params, op, shape, scratch);
    }
    return true;
  }

 private:
  /// How an operation is divided. Query rows that share keys are computed together: a few tokens'
  /// rows of all heads that read the same keys.
  struct Shape {
    Shape(const ggml_tensor* op, int threads)
        : tokens(size(op->src[0]->ne[1])),
          heads(size(op->src[0]->ne[2])),
          key_heads(size(op->src[1]->ne[2])),
          sequences(size(op->src[0]->ne[3])),
          key_width(size(op->src[1]->ne[0])),
          value_width(size(op->src[2]->ne[0])),
          keys(size(op->src[1]->ne[1])),
          group(heads / key_heads),
          tokens_together(std::min(tokens, std::max<std::size_t>(1, kRowsTogether / group))),
          blocks((tokens + tokens_together - 1) / tokens_together),
          chunks((keys + kKeyChunk - 1) / kKeyChunk),
          splits(chunks > 1 && tasks() < 2 * size(threads) &&
                 tasks() * chunks * rows() * row_bytes() <= kMostSaved) {}

    [[nodiscard]] std::size_t tasks() const { return blocks * key_heads * sequences; }
    [[nodiscard]] std::size_t rows() const { return tokens_together * group; }
    [[nodiscard]] std::size_t padded_values() const { return (value_width + 15) / 16 * 16; }
    [[nodiscard]] std::size_t row_bytes() const {
      return padded_values() * sizeof(float) + aligned(sizeof(AttentionRow));
    }
    /// What chunks have gathered, until they are merged.
    [[nodiscard]] std::size_t saved_bytes() const {
      return splits ? tasks() * chunks * aligned(rows() * row_bytes()) : 0;
    }
    [[nodiscard]] std::size_t scratch_bytes() const {
      return aligned(2 * rows() * row_bytes() + attention_scratch(key_width, value_width, rows()));
    }

    static constexpr std::size_t kRowsTogether = 96;
    // The keys that these rows see, from the beginning of a chunk on, fit into a ring.
    static_assert(kKeyOrderPeriod == kKeyChunk && kFewestSpareCells >= kKeyChunk + kRowsTogether);
    static constexpr std::size_t kMostSaved = 32 << 20;
    std::size_t tokens, heads, key_heads, sequences, key_width, value_width, keys;
    std::size_t group;            // heads that read the same keys
    std::size_t tokens_together;  // of a task
    std::size_t blocks;           // of tokens
    std::size_t chunks;           // of keys
    bool splits;                  // chunks are computed by several threads, and then merged
  };

  /// Rows in one piece of memory: first all rows, then their values.
  class Rows {
   public:
    Rows(std::byte* memory, const Shape& shape)
        : rows_(reinterpret_cast<AttentionRow*>(memory)),
          values_(reinterpret_cast<float*>(memory + shape.rows() * aligned(sizeof(AttentionRow)))),
          width_(shape.padded_values()) {}

    AttentionRow& operator[](std::size_t i) { return rows_[i]; }
    AttentionRow* data() { return rows_; }
    void clear(std::size_t count) {
      std::fill_n(values_, count * width_, 0.0F);
      for (std::size_t i = 0; i < count; ++i) {
        rows_[i].highest = -std::numeric_limits<float>::infinity();
        rows_[i].weight = 0;
        rows_[i].values = values_ + i * width_;
      }
    }

   private:
    AttentionRow* rows_;
    float* values_;
    std::size_t width_;
  };

  /// Tokens of one sequence with the heads that read the same keys.
  struct Task {
    Task(std::size_t i, const Shape& shape)
        : first(i % shape.blocks * shape.tokens_together),
          end(std::min(shape.tokens, first + shape.tokens_together)),
          key_head(i / shape.blocks % shape.key_heads),
          sequence(i / shape.blocks / shape.key_heads) {}

    [[nodiscard]] std::size_t rows(const Shape& shape) const { return (end - first) * shape.group; }

    std::size_t first, end;  // tokens
    std::size_t key_head, sequence;
  };

  static float parameter(const ggml_tensor* op, std::size_t i) {
    float x = 0;
    std::memcpy(&x, op->op_params + i, sizeof x);
    return x;
  }

  static AttentionRule rule_of(const ggml_tensor* op) {
    const float cap = parameter(op, 2);
    return {.scale = cap != 0 ? parameter(op, 0) / cap : parameter(op, 0), .soft_cap = cap};
  }

  /// How much the mask counts for a head (ALiBi).
  static float slope_of(const ggml_tensor* op, std::size_t head, std::size_t heads) {
    const float bias = parameter(op, 1);
    if (bias <= 0) return 1;
    const double octave = std::exp2(std::floor(std::log2(static_cast<double>(heads))));
    const auto place = static_cast<double>(head);
    return static_cast<float>(
        place < octave ? std::pow(std::exp2(-bias / octave), place + 1)
                       : std::pow(std::exp2(-bias / 2 / octave), 2 * (place - octave) + 1));
  }

  static CacheRows cache_of(const ggml_tensor* cache, const Task& task, const Shape& shape) {
    constexpr auto kCopy = [](const void* row, float* out, std::int64_t width) {
      std::memcpy(out, row, size(width) * sizeof(float));
    };
    const std::size_t share = shape.sequences / size(cache->ne[3]);
    return {.data = at(cache, 0, task.key_head, task.sequence / share),
            .row_bytes = cache->nb[1],
            .width = size(cache->ne[0]),
            .is_f16 = cache->type == GGML_TYPE_F16,
            .to_floats = cache->type == GGML_TYPE_F32
                             ? +kCopy
                             : ggml_get_type_traits(cache->type)->to_float};
  }

  static const std::uint16_t* mask_of(const ggml_tensor* op, std::size_t token,
                                      std::size_t sequence) {
    const ggml_tensor* const mask = op->src[3];
    if (mask == nullptr) return nullptr;
    return reinterpret_cast<const std::uint16_t*>(at(mask, token, 0, sequence % size(mask->ne[3])));
  }

  /// The chunk with the oldest key that the first token of a task sees. Keys of a sliding window may
  /// lie in a ring: chunks are gathered from this one on, so that they are in the order of their
  /// keys' positions wherever the ring begins.
  static std::size_t oldest_chunk(const ggml_tensor* op, const Task& task, const Shape& shape) {
    constexpr std::uint16_t kUnseen = 0xfc00;  // -infinity
    const std::uint16_t* const mask = mask_of(op, task.first, task.sequence);
    if (mask == nullptr) return 0;
    std::size_t first = 0;
    while (first < shape.keys && mask[first] == kUnseen) ++first;
    if (first == 0) {
      std::size_t behind_gap = shape.keys;
      while (behind_gap > 0 && mask[behind_gap - 1] != kUnseen) --behind_gap;
      first = behind_gap;
    }
    return first % shape.keys / kKeyChunk;
  }

  static void fill(const ggml_tensor* op, const Task& task, const Shape& shape, Rows& rows) {
    std::size_t i = 0;
    for (std::size_t token = task.first; token < task.end; ++token) {
      for (std::size_t h = 0; h < shape.group; ++h, ++i) {
        const std::size_t head = task.key_head * shape.group + h;
        rows[i].query = reinterpret_cast<const float*>(at(op->src[0], token, head, task.sequence));
        rows[i].mask = mask_of(op, token, task.sequence);
        rows[i].slope = slope_of(op, head, shape.heads);
      }
    }
  }

  static void write(const LlamaKernels& kernels, ggml_tensor* op, const Task& task,
                    const Shape& shape, std::size_t i, const AttentionRow& row) {
    const std::size_t head = task.key_head * shape.group + i % shape.group;
    const std::size_t token = task.first + i / shape.group;
    const ggml_tensor* const sinks = op->src[4];
    kernels.finish(
        &row, sinks == nullptr ? nullptr : static_cast<const float*>(sinks->data) + head,
        shape.value_width,
        const_cast<float*>(reinterpret_cast<const float*>(at(op, head, token, task.sequence))));
  }

  static void attend_by_rows(const LlamaKernels& kernels, const ggml_compute_params& params,
                             ggml_tensor* op, const Shape& shape, std::byte* scratch) {
    Rows total(scratch, shape);
    Rows chunk(scratch + shape.rows() * shape.row_bytes(), shape);
    std::byte* const rest = aligned(scratch + 2 * shape.rows() * shape.row_bytes());
    Items items(params, shape.tasks());
    while (const auto item = items.next()) {
      const Task task(*item, shape);
      const CacheRows keys = cache_of(op->src[1], task, shape);
      const CacheRows values = cache_of(op->src[2], task, shape);
      const std::size_t count = task.rows(shape);
      const std::size_t oldest = oldest_chunk(op, task, shape);
      total.clear(count);
      fill(op, task, shape, chunk);
      for (std::size_t c = 0; c < shape.chunks; ++c) {
        const std::size_t begin = (oldest + c) % shape.chunks * kKeyChunk;
        chunk.clear(count);
        kernels.attend(rule_of(op), keys, values, begin, std::min(shape.keys, begin + kKeyChunk),
                       chunk.data(), count, rest);
        for (std::size_t i = 0; i < count; ++i) {
          kernels.merge(&total[i], &chunk[i], shape.padded_values());
        }
      }
      for (std::size_t i = 0; i < count; ++i) write(kernels, op, task, shape, i, total[i]);
    }
  }

  static void attend_by_chunks(const LlamaKernels& kernels, const ggml_compute_params& params,
                               ggml_tensor* op, const Shape& shape, std::byte* saved,
                               std::byte* scratch) {
    const std::size_t bytes = aligned(shape.rows() * shape.row_bytes());
    {
      Items items(params, shape.tasks() * shape.chunks);
      while (const auto item = items.next()) {
        const Task task(*item / shape.chunks, shape);
        const std::size_t begin = *item % shape.chunks * kKeyChunk;
        Rows chunk(saved + *item * bytes, shape);
        const std::size_t count = task.rows(shape);
        chunk.clear(count);
        fill(op, task, shape, chunk);
        kernels.attend(rule_of(op), cache_of(op->src[1], task, shape),
                       cache_of(op->src[2], task, shape), begin,
                       std::min(shape.keys, begin + kKeyChunk), chunk.data(), count, scratch);
      }
    }
    ggml_barrier(params.threadpool);
    Rows total(scratch, shape);
    for (std::size_t i = 0; i < shape.tasks(); ++i) {
      const Task task(i, shape);
      const std::size_t oldest = oldest_chunk(op, task, shape);
      for (std::size_t r = size(params.ith); r < task.rows(shape); r += size(params.nth)) {
        total.clear(1);
        for (std::size_t c = 0; c < shape.chunks; ++c) {
          Rows chunk(saved + (i * shape.chunks + (oldest + c) % shape.chunks) * bytes, shape);
          kernels.merge(&total[0], &chunk[r], shape.padded_values());
        }
        write(kernels, op, task, shape, r, total[0]);
      }
    }
  }
};

/// Through this the backend asks for each operation who computes it. It is a type of buffers by the
/// backend's interface only: no weights are kept in one.
class Kernels : public ggml::cpu::extra_buffer_type {
 public:
  bool supports_op(ggml_backend_dev_t /*device*/, const ggml_tensor* /*op*/) override {
    return false;
  }

  ggml::cpu::tensor_traits* get_tensor_traits(const ggml_tensor* op) override {
    if (used_kernels.load(std::memory_order_relaxed) == nullptr) return nullptr;
    if (op->op == GGML_OP_MUL_MAT && Product::computes(op)) return &product_;
    if (op->op == GGML_OP_MUL_MAT_ID && ExpertProduct::computes(op)) return &expert_product_;
    if (op->op == GGML_OP_FLASH_ATTN_EXT && Attention::computes(op)) return &attention_;
    return nullptr;
  }

 private:
  Product product_;
  ExpertProduct expert_product_;
  Attention attention_;
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

}  // namespace afterimage
