// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

// Included by files compiled for newer processors than the rest of the program: nothing here may
// define inline functions, because the linker could keep their copy for the whole program.
#include <cstddef>
#include <cstdint>

namespace afterimage {

/// Formats of weights that the kernels multiply, as GGUF files have them.
enum class WeightType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ5_0,
  kQ4_0,
  kIQ4NL,
  kMXFP4,
  kQ4K,
  kQ5K,
  kQ6K,
};

/// Rows of weights, `row_bytes` apart.
struct WeightRows {
  WeightType type;
  const std::byte* data;
  std::size_t row_bytes;
  std::size_t inner;  // numbers in a row: a whole number of the format's blocks
};

/// Rows of packed activations (LlamaKernels::pack), and the sums that they give with the weights.
struct ProductColumns {
  const std::byte* packed;
  std::size_t packed_bytes;  // from one row of activations to the next
  std::size_t count;
  float* out;  // out[c * out_stride + r] is the sum of weight row r and activation row c
  std::size_t out_stride;  // floats
};

/// One row of a key or value cache as 32-bit floats: of 16-bit floats, or in another format.
struct CacheRows {
  const std::byte* data;  // of the first key of the sequence
  std::size_t row_bytes;
  std::size_t width;  // numbers in a row
  bool is_f16;
  void (*to_floats)(const void* row, float* out, std::int64_t width);  // if not is_f16
};

/// What all rows of one attention have in common.
struct AttentionRule {
  float scale;
  float soft_cap;  // 0: none
};

/// A query row, and what it has gathered from keys so far.
struct AttentionRow {
  const float* query;
  const std::uint16_t* mask;  // 16-bit floats, one per key; nullptr: sees every key
  float slope;                // the mask counts this many times
  float highest;              // score so far; -infinity: no key was seen
  float weight;               // sum of exp(score - highest)
  float* values;  // sum of exp(score - highest) * value; round16(width of values) floats
};

/// Keys are attended to in blocks of this many, and gathered in chunks. Both are part of the order
/// of the sums.
inline constexpr std::size_t kKeyBlock = 64;
inline constexpr std::size_t kKeyChunk = 256;

/// Matrix products and attention, compiled once per instruction set.
///
/// Order    Each result is computed by one fixed sequence of operations, which depends on the format
///          and on the length of its own sum: never on how many rows are computed together, on the
///          row's place among them, or on keys that are masked. Tables give equal bits.
/// Threads  Any.
struct LlamaKernels {
  const char* name;  // "avx512", "avx2", "neon-dot", "neon"

  /// Packs numbers [first * pack_unit, last * pack_unit) of a row for a product with `type`.
  void (*pack)(WeightType type, const float* row, std::size_t inner, std::size_t first,
               std::size_t last, std::byte* packed);

  /// Products of `rows` rows with all columns. `scratch`: kProductScratch bytes, aligned to 64.
  void (*multiply)(const WeightRows& weights, std::size_t rows, const ProductColumns& columns,
                   std::byte* scratch);

  /// Gathers keys [begin, end), at most kKeyChunk, into `rows`, which have gathered nothing.
  /// `scratch`: attention_scratch() bytes, aligned to 64.
  void (*attend)(const AttentionRule& rule, const CacheRows& keys, const CacheRows& values,
                 std::size_t begin, std::size_t end, AttentionRow* rows, std::size_t count,
                 std::byte* scratch);

  /// Adds what `chunk` has gathered to `total`, which has gathered earlier keys.
  void (*merge)(AttentionRow* total, const AttentionRow* chunk, std::size_t width);

  /// The row's result: values / weight, where a sink (nullptr: none) is one more key without value.
  void (*finish)(const AttentionRow* total, const float* sink, std::size_t width, float* out);
};

inline constexpr std::size_t kProductScratch = 320 * 1024;

}  // namespace afterimage
