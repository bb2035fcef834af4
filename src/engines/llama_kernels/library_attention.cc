// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engines/llama_kernels/kernels.h"
#include "engines/llama_kernels/library_kernels.h"
#include "engines/llama_kernels/library_operations.h"

namespace afterimage {
namespace {

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
    bytes = kAlignment + shape.saved_bytes() + to_size(threads) * shape.scratch_bytes();
    return true;
  }

  bool compute_forward(ggml_compute_params* params, ggml_tensor* op) override {
    const LlamaKernels& kernels = *kernels_in_use();
    const Shape shape(op, params->nth);
    std::byte* const saved = aligned(params->wdata);
    std::byte* const scratch =
        saved + shape.saved_bytes() + to_size(params->ith) * shape.scratch_bytes();
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
        : tokens(to_size(op->src[0]->ne[1])),
          heads(to_size(op->src[0]->ne[2])),
          key_heads(to_size(op->src[1]->ne[2])),
          sequences(to_size(op->src[0]->ne[3])),
          key_width(to_size(op->src[1]->ne[0])),
          value_width(to_size(op->src[2]->ne[0])),
          keys(to_size(op->src[1]->ne[1])),
          group(heads / key_heads),
          tokens_together(std::min(tokens, std::max<std::size_t>(1, kRowsTogether / group))),
          blocks((tokens + tokens_together - 1) / tokens_together),
          chunks((keys + kKeyChunk - 1) / kKeyChunk),
          splits(chunks > 1 && tasks() < 2 * to_size(threads) &&
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
      std::memcpy(out, row, to_size(width) * sizeof(float));
    };
    const std::size_t share = shape.sequences / to_size(cache->ne[3]);
    return {.data = row_at(cache, 0, task.key_head, task.sequence / share),
            .row_bytes = cache->nb[1],
            .width = to_size(cache->ne[0]),
            .is_f16 = cache->type == GGML_TYPE_F16,
            .to_floats = cache->type == GGML_TYPE_F32
                             ? +kCopy
                             : ggml_get_type_traits(cache->type)->to_float};
  }

  static const std::uint16_t* mask_of(const ggml_tensor* op, std::size_t token,
                                      std::size_t sequence) {
    const ggml_tensor* const mask = op->src[3];
    if (mask == nullptr) return nullptr;
    return reinterpret_cast<const std::uint16_t*>(
        row_at(mask, token, 0, sequence % to_size(mask->ne[3])));
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
        rows[i].query =
            reinterpret_cast<const float*>(row_at(op->src[0], token, head, task.sequence));
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
        const_cast<float*>(reinterpret_cast<const float*>(row_at(op, head, token, task.sequence))));
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
      for (std::size_t r = to_size(params.ith); r < task.rows(shape); r += to_size(params.nth)) {
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

}  // namespace

ggml::cpu::tensor_traits* attention_traits(const ggml_tensor* op) {
  static Attention traits;
  return Attention::computes(op) ? &traits : nullptr;
}

}  // namespace afterimage
