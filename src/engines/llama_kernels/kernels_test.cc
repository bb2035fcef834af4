// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_kernels/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The bits of every table on every processor, without llama.cpp: weights and activations are made
// of random whole numbers, so that they are the same everywhere, and the results are compared with
// digests in this file.
//
// If a digest differs on one machine only, its table sums in another order: that is an error. If it
// differs on all because the order of sums was changed, increment kOrderOfSums and copy the digests
// that the failed test prints.
namespace afterimage {
namespace {

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(engine_()) % n; }
  std::byte byte() { return static_cast<std::byte>(below(256)); }
  /// From -2 to 2, exact: a whole number of 2^-22.
  float number() {
    return static_cast<float>(static_cast<int>(below(1U << 24)) - (1 << 23)) * 0x1p-22F;
  }
  /// A 16-bit float from 2^-7 to 1, or its negative.
  std::uint16_t half() {
    return static_cast<std::uint16_t>(below(2) << 15 | (8 + below(7)) << 10 | below(1 << 10));
  }
  /// The upper half of a 32-bit float of these sizes.
  std::uint16_t bfloat() {
    return static_cast<std::uint16_t>(below(2) << 15 | (120 + below(7)) << 7 | below(1 << 7));
  }

 private:
  std::mt19937 engine_;  // the standard says which numbers it gives
};

void append(std::vector<std::byte>& bytes, const void* from, std::size_t count) {
  const auto* const begin = static_cast<const std::byte*>(from);
  bytes.insert(bytes.end(), begin, begin + count);
}

/// FNV-1a of the bits of numbers.
class Digest {
 public:
  void add(std::span<const float> numbers) {
    for (const std::byte byte : std::as_bytes(numbers)) {
      state_ = (state_ ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
    }
  }
  [[nodiscard]] std::string hex() const {
    std::array<char, 17> text{};
    std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(state_));
    return text.data();
  }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// A format as files have it: random bytes, but for its scales, which are random 16-bit floats.
struct Format {
  WeightType type;
  const char* name;
  std::size_t length;  // weights in a block
  std::size_t bytes;
  std::size_t first_scale;
  std::size_t scales;
  std::string_view digest;
};

constexpr auto kFormats = std::to_array<Format>({
    {WeightType::kF32, "F32", 1, 4, 0, 0, "cebb2e00c6ba41a7"},
    {WeightType::kF16, "F16", 1, 2, 0, 1, "665f4fcea02926d7"},
    {WeightType::kBF16, "BF16", 1, 2, 0, 0, "3b79c12fcb66b5b9"},
    {WeightType::kQ8_0, "Q8_0", 32, 34, 0, 1, "a7c393d16a2f934c"},
    {WeightType::kQ5_0, "Q5_0", 32, 22, 0, 1, "066ab9827815937b"},
    {WeightType::kQ4_0, "Q4_0", 32, 18, 0, 1, "4c072eee7dff99f0"},
    {WeightType::kIQ4NL, "IQ4_NL", 32, 18, 0, 1, "8ecbf8d5b538a0bc"},
    {WeightType::kMXFP4, "MXFP4", 32, 17, 0, 0, "02487314f5d730dc"},
    {WeightType::kQ4K, "Q4_K", 256, 144, 0, 2, "3c247bc90b65a0c9"},
    {WeightType::kQ5K, "Q5_K", 256, 176, 0, 2, "6e371934cbe40d45"},
    {WeightType::kQ6K, "Q6_K", 256, 210, 208, 1, "365dd16a051a689b"},
});

std::vector<std::byte> random_block(const Format& format, Random& random) {
  std::vector<std::byte> block;
  if (format.type == WeightType::kF32) {
    const float x = random.number();
    append(block, &x, sizeof x);
  } else if (format.type == WeightType::kBF16) {
    const std::uint16_t x = random.bfloat();
    append(block, &x, sizeof x);
  } else {
    for (std::size_t i = 0; i < format.bytes; ++i) block.push_back(random.byte());
    for (std::size_t i = 0; i < format.scales; ++i) {
      const std::uint16_t scale = random.half();
      std::memcpy(block.data() + format.first_scale + 2 * i, &scale, sizeof scale);
    }
  }
  // Exponents, of which the first two stand for numbers with fewer bits.
  if (format.type == WeightType::kMXFP4) {
    block[0] =
        static_cast<std::byte>(random.below(8) == 0 ? random.below(2) : 118 + random.below(10));
  }
  return block;
}

/// A row of activations: zeros, numbers that lie between two bytes, or any.
void append_activations(std::vector<float>& to, std::size_t count, std::size_t column,
                        Random& random) {
  for (std::size_t i = 0; i < count; ++i) {
    if (column == 0) {
      to.push_back(i % 2 == 0 ? 0.0F : -0.0F);
    } else if (column == 1) {
      // With the largest number of each block the scale is 1/8.
      to.push_back(i % 32 == 5 ? -127 / 8.0F
                               : (static_cast<float>(random.below(252)) - 126 + 0.5F) / 8);
    } else {
      to.push_back(random.number());
    }
  }
}

/// Rows of weights times columns of activations.
class Product {
 public:
  Product(const Format& format, std::size_t inner, std::size_t rows, std::size_t columns,
          Random& random)
      : format_(format), inner_(inner), rows_(rows), columns_(columns) {
    for (std::size_t i = 0; i < rows * inner / format.length; ++i) {
      const std::vector<std::byte> block = random_block(format, random);
      append(weights_, block.data(), block.size());
    }
    for (std::size_t c = 0; c < columns; ++c) append_activations(activations_, inner, c, random);
  }

  /// Columns [first, first + count) in one call.
  [[nodiscard]] std::vector<float> multiply(const LlamaKernels& kernels, std::size_t first,
                                            std::size_t count) const {
    const std::size_t bytes = packed_bytes(format_.type, inner_);
    const std::size_t units = (inner_ + pack_unit(format_.type) - 1) / pack_unit(format_.type);
    std::vector<std::byte> packed(count * bytes);
    for (std::size_t c = 0; c < count; ++c) {
      kernels.pack(format_.type, activations_.data() + (first + c) * inner_, inner_, 0, units,
                   packed.data() + c * bytes);
    }
    alignas(64) static std::array<std::byte, kProductScratch> scratch;
    std::vector<float> out(count * rows_, NAN);
    kernels.multiply({.type = format_.type,
                      .data = weights_.data(),
                      .row_bytes = inner_ / format_.length * format_.bytes,
                      .inner = inner_},
                     rows_,
                     {.packed = packed.data(),
                      .packed_bytes = bytes,
                      .count = count,
                      .out = out.data(),
                      .out_stride = rows_},
                     scratch.data());
    return out;
  }

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t columns() const { return columns_; }

 private:
  const Format& format_;
  std::size_t inner_, rows_, columns_;
  std::vector<std::byte> weights_;
  std::vector<float> activations_;
};

/// A short row, and one that is computed in parts; rows and columns that fill no tile.
std::vector<Product> products_of(const Format& format) {
  Random random(1);
  std::vector<Product> made;
  if (format.length == 1) {
    made.emplace_back(format, 37, 3, 5, random);
    made.emplace_back(format, 2090, 45, 9, random);
  } else {
    made.emplace_back(format, format.length, 3, 5, random);
    made.emplace_back(format, 4096 + 3 * format.length, 45, 9, random);
  }
  return made;
}

TEST(LlamaKernels, ProductsHaveTheSameBitsOnEveryMachine) {
  if (supported_llama_kernels().empty()) GTEST_SKIP() << "no kernels for this processor";
  for (const Format& format : kFormats) {
    for (const LlamaKernels* const kernels : supported_llama_kernels()) {
      Digest digest;
      for (const Product& product : products_of(format)) {
        digest.add(product.multiply(*kernels, 0, product.columns()));
      }
      EXPECT_EQ(digest.hex(), format.digest) << kernels->name << " " << format.name;
    }
  }
}

TEST(LlamaKernels, AColumnAloneHasTheBitsThatItHasInEveryBatch) {
  for (const Format& format : kFormats) {
    for (const Product& product : products_of(format)) {
      for (const LlamaKernels* const kernels : supported_llama_kernels()) {
        const auto whole = product.multiply(*kernels, 0, product.columns());
        for (std::size_t c = 0; c < product.columns(); ++c) {
          const std::size_t count = std::min(c % 3 + 1, product.columns() - c);
          const auto expected =
              std::span(whole).subspan(c * product.rows(), count * product.rows());
          EXPECT_TRUE(same_bits(expected, product.multiply(*kernels, c, count)))
              << kernels->name << " " << format.name << ", " << count << " columns from " << c;
        }
      }
    }
  }
}

constexpr std::uint16_t kUnseen = 0xfc00;  // -infinity

struct Attention {
  const char* name;
  std::size_t rows, keys, key_width, value_width;
  bool is_f16;
  float soft_cap;
  float slope;
  bool has_sink;
  bool has_mask;
  std::string_view digest;
};

constexpr auto kAttentions = std::to_array<Attention>({
    {"windows", 11, 700, 64, 64, true, 0, 1, false, true, "9de57a526a24d6f0"},
    {"narrow rows", 7, 90, 40, 24, true, 0, 1, false, true, "fbe440d8d0c9a97b"},
    {"a soft cap", 5, 300, 128, 128, true, 5, 1, false, true, "4827c52e5bbdc66d"},
    {"a slope and a sink", 6, 130, 80, 48, true, 0, 0.5F, true, true, "e2f267d7f349c644"},
    {"32-bit floats", 13, 270, 72, 88, false, 0, 1, true, true, "6d7e49f947fd06d3"},
    {"no mask", 3, 65, 32, 32, true, 0, 1, false, false, "c26319aa14b18b25"},
});

void copy_floats(const void* row, float* out, std::int64_t width) {
  std::memcpy(out, row, static_cast<std::size_t>(width) * sizeof(float));
}

/// Random rows of a cache.
std::vector<std::byte> random_cache(std::size_t count, bool is_f16, Random& random) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t half = random.half();
    const float number = random.number();
    if (is_f16) {
      append(bytes, &half, sizeof half);
    } else {
      append(bytes, &number, sizeof number);
    }
  }
  return bytes;
}

/// Random queries, keys, values and masks; the first row sees no key.
class AttentionCase {
 public:
  explicit AttentionCase(const Attention& shape) : shape_(shape) {
    Random random(2);
    for (std::size_t i = 0; i < shape.rows * shape.key_width; ++i) {
      queries_.push_back(random.number());
    }
    keys_ = random_cache(shape.keys * shape.key_width, shape.is_f16, random);
    values_ = random_cache(shape.keys * shape.value_width, shape.is_f16, random);
    // 0, -0.25, and -0.5.
    constexpr std::array<std::uint16_t, 3> kSeen = {0, 0xb400, 0xb800};
    const auto keys = static_cast<std::uint32_t>(shape.keys);
    for (std::size_t i = 0; i < shape.rows; ++i) {
      const std::size_t end = i == 0 ? 0 : 1 + random.below(keys);
      const std::size_t first = i == 0 ? 0 : random.below(static_cast<std::uint32_t>(end));
      for (std::size_t k = 0; k < shape.keys; ++k) {
        mask_.push_back(k >= first && k < end ? kSeen[k % 3] : kUnseen);
      }
    }
  }

  /// Rows [first, first + count) in one call of each chunk.
  [[nodiscard]] std::vector<float> attend(const LlamaKernels& kernels, std::size_t first,
                                          std::size_t count) const {
    const std::size_t width = (shape_.value_width + 15) / 16 * 16;
    const std::size_t bytes = attention_scratch(shape_.key_width, shape_.value_width, count);
    const std::unique_ptr<std::byte, decltype(&std::free)> scratch(
        static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)), &std::free);
    std::vector<float> of_total(count * width);
    std::vector<AttentionRow> total = rows(first, count, of_total);
    for (std::size_t begin = 0; begin < shape_.keys; begin += kKeyChunk) {
      std::vector<float> of_chunk(count * width);
      std::vector<AttentionRow> chunk = rows(first, count, of_chunk);
      kernels.attend({.scale = 0.125F, .soft_cap = shape_.soft_cap}, cache(keys_, shape_.key_width),
                     cache(values_, shape_.value_width), begin,
                     std::min(shape_.keys, begin + kKeyChunk), chunk.data(), count, scratch.get());
      for (std::size_t i = 0; i < count; ++i) kernels.merge(&total[i], &chunk[i], width);
    }
    const float sink = 1.5F;
    std::vector<float> out(count * shape_.value_width);
    for (std::size_t i = 0; i < count; ++i) {
      kernels.finish(&total[i], shape_.has_sink ? &sink : nullptr, shape_.value_width,
                     out.data() + i * shape_.value_width);
    }
    return out;
  }

 private:
  /// Rows that have gathered nothing, with `values` to gather in.
  [[nodiscard]] std::vector<AttentionRow> rows(std::size_t first, std::size_t count,
                                               std::vector<float>& values) const {
    std::vector<AttentionRow> made(count);
    for (std::size_t i = 0; i < count; ++i) {
      made[i] = {.query = queries_.data() + (first + i) * shape_.key_width,
                 .mask = shape_.has_mask ? mask_.data() + (first + i) * shape_.keys : nullptr,
                 .slope = shape_.slope,
                 .highest = -std::numeric_limits<float>::infinity(),
                 .weight = 0,
                 .values = values.data() + i * (values.size() / count)};
    }
    return made;
  }
  [[nodiscard]] CacheRows cache(const std::vector<std::byte>& data, std::size_t width) const {
    return {.data = data.data(),
            .row_bytes = width * (shape_.is_f16 ? sizeof(std::uint16_t) : sizeof(float)),
            .width = width,
            .is_f16 = shape_.is_f16,
            .to_floats = copy_floats};
  }

  const Attention& shape_;
  std::vector<float> queries_;
  std::vector<std::byte> keys_, values_;
  std::vector<std::uint16_t> mask_;
};

TEST(LlamaKernels, AttentionHasTheSameBitsOnEveryMachine) {
  if (supported_llama_kernels().empty()) GTEST_SKIP() << "no kernels for this processor";
  for (const Attention& shape : kAttentions) {
    const AttentionCase attention(shape);
    for (const LlamaKernels* const kernels : supported_llama_kernels()) {
      Digest digest;
      digest.add(attention.attend(*kernels, 0, shape.rows));
      EXPECT_EQ(digest.hex(), shape.digest) << kernels->name << ", " << shape.name;
    }
  }
}

TEST(LlamaKernels, ARowOfAttentionAloneHasTheBitsThatItHasInEveryBatch) {
  for (const Attention& shape : kAttentions) {
    const AttentionCase attention(shape);
    for (const LlamaKernels* const kernels : supported_llama_kernels()) {
      const auto whole = attention.attend(*kernels, 0, shape.rows);
      for (std::size_t row = 0; row < shape.rows; ++row) {
        const auto expected = std::span(whole).subspan(row * shape.value_width, shape.value_width);
        EXPECT_TRUE(same_bits(expected, attention.attend(*kernels, row, 1)))
            << kernels->name << ", " << shape.name << ", row " << row;
      }
    }
  }
}

}  // namespace
}  // namespace afterimage
