// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "engines/llama_kernels/kernels.h"
#include "ggml.h"

namespace afterimage {
namespace {

struct Format {
  WeightType type;
  ggml_type library;
};

constexpr auto kFormats = std::to_array<Format>({{WeightType::kF32, GGML_TYPE_F32},
                                                 {WeightType::kF16, GGML_TYPE_F16},
                                                 {WeightType::kBF16, GGML_TYPE_BF16},
                                                 {WeightType::kQ8_0, GGML_TYPE_Q8_0},
                                                 {WeightType::kQ5_0, GGML_TYPE_Q5_0},
                                                 {WeightType::kQ4_0, GGML_TYPE_Q4_0},
                                                 {WeightType::kIQ4NL, GGML_TYPE_IQ4_NL},
                                                 {WeightType::kMXFP4, GGML_TYPE_MXFP4},
                                                 {WeightType::kQ4K, GGML_TYPE_Q4_K},
                                                 {WeightType::kQ5K, GGML_TYPE_Q5_K},
                                                 {WeightType::kQ6K, GGML_TYPE_Q6_K}});

bool is_quantized(const Format& format) { return format.type > WeightType::kBF16; }

std::vector<float> numbers(std::mt19937& chance, std::size_t count, float scale) {
  std::vector<float> made(count);
  for (float& x : made) x = scale * (static_cast<float>(chance()) * 0x1p-30F - 2);
  return made;
}

/// Memory that ends where the process may not read.
class Edge {
 public:
  explicit Edge(std::size_t bytes) : bytes_(bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    mapped_ = (bytes + page - 1) / page * page + page;
    start_ = static_cast<std::byte*>(
        ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::mprotect(start_ + mapped_ - page, page, PROT_NONE);
    data_ = start_ + mapped_ - page - bytes;
  }
  ~Edge() { ::munmap(start_, mapped_); }
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;

  std::byte* data() { return data_; }
  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_, mapped_;
  std::byte* start_;
  std::byte* data_;
};

/// A product of random weights and activations.
class Case {
 public:
  Case(const Format& format, std::size_t inner, std::size_t rows, std::size_t columns,
       std::mt19937& chance)
      : format_(format),
        inner_(inner),
        rows_(rows),
        columns_(columns),
        activations_(numbers(chance, inner * columns, 1)),
        weights_(rows * row_bytes()) {
    const std::vector<float> weights = numbers(chance, inner * rows, 0.05F);
    if (format.library == GGML_TYPE_F32) {
      std::memcpy(weights_.data(), weights.data(), weights_.size());
    } else {
      ggml_quantize_chunk(format.library, weights.data(), weights_.data(), 0,
                          static_cast<std::int64_t>(rows), static_cast<std::int64_t>(inner),
                          nullptr);
    }
  }

  /// Columns [first, first + count) in one call.
  [[nodiscard]] std::vector<float> multiply(const LlamaKernels& kernels, std::size_t first,
                                            std::size_t count) const {
    const std::size_t bytes = packed_bytes(format_.type, inner_);
    const std::size_t units = (inner_ + pack_unit(format_.type) - 1) / pack_unit(format_.type);
    std::vector<std::byte> packed(count * bytes);
    for (std::size_t c = 0; c < count; ++c) {
      const float* const row = activations_.data() + (first + c) * inner_;
      // As threads do that share a row.
      const std::size_t middle = units / 2;
      kernels.pack(format_.type, row, inner_, middle, units, packed.data() + c * bytes);
      kernels.pack(format_.type, row, inner_, 0, middle, packed.data() + c * bytes);
    }
    alignas(64) static std::array<std::byte, kProductScratch> scratch;
    std::vector<float> out(count * rows_, NAN);
    kernels.multiply(
        {.type = format_.type, .data = weights_.data(), .row_bytes = row_bytes(), .inner = inner_},
        rows_,
        {.packed = packed.data(),
         .packed_bytes = bytes,
         .count = count,
         .out = out.data(),
         .out_stride = rows_},
        scratch.data());
    return out;
  }

  /// What the numbers that the formats stand for give, relative to the size of the sums.
  [[nodiscard]] double error(std::span<const float> found) const {
    std::vector<float> row(inner_);
    double squares = 0;
    double wrong = 0;
    for (std::size_t r = 0; r < rows_; ++r) {
      const std::byte* const from = weights_.data() + r * row_bytes();
      if (format_.library == GGML_TYPE_F32) {
        std::memcpy(row.data(), from, row_bytes());
      } else {
        ggml_get_type_traits(format_.library)
            ->to_float(from, row.data(), static_cast<std::int64_t>(inner_));
      }
      for (std::size_t c = 0; c < columns_; ++c) {
        double sum = 0;
        for (std::size_t i = 0; i < inner_; ++i) {
          sum += static_cast<double>(row[i]) * activations_[c * inner_ + i];
        }
        squares += sum * sum;
        wrong += (sum - found[c * rows_ + r]) * (sum - found[c * rows_ + r]);
      }
    }
    return std::sqrt(wrong / squares);
  }

  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] std::span<const float> column(std::span<const float> out, std::size_t c) const {
    return out.subspan(c * rows_, rows_);
  }

 private:
  [[nodiscard]] std::size_t row_bytes() const {
    return ggml_row_size(format_.library, static_cast<std::int64_t>(inner_));
  }

  Format format_;
  std::size_t inner_, rows_, columns_;
  std::vector<float> activations_;
  Edge weights_;
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// `inner` that the format can have.
std::size_t some_inner(const Format& format, std::mt19937& chance) {
  if (!is_quantized(format)) return 1 + chance() % 2100;
  if (format.type >= WeightType::kQ4K) return 256 * (1 + chance() % 4);
  return 32 * (1 + chance() % 24);
}

TEST(LlamaProduct, ARowAloneHasTheBitsThatItHasInEveryBatch) {
  std::mt19937 chance(1);
  constexpr std::size_t kShapes = 1000;
  for (std::size_t shape = 0; shape < kShapes; ++shape) {
    const Format& format = kFormats[shape % kFormats.size()];
    // Most have few rows; one of sixteen is a whole batch.
    const std::size_t columns = shape % 16 == 0 ? 512 : 2 + chance() % 40;
    const std::size_t rows = 1 + chance() % (columns == 512 ? 40 : 100);
    const std::size_t inner = some_inner(format, chance);
    const Case product(format, inner, rows, columns, chance);
    for (const LlamaKernels* const kernels : supported_llama_kernels()) {
      const auto whole = product.multiply(*kernels, 0, columns);
      for (const std::size_t c : {std::size_t{0}, columns / 2, columns - 1}) {
        ASSERT_TRUE(same_bits(product.column(whole, c), product.multiply(*kernels, c, 1)))
            << kernels->name << " " << ggml_type_name(format.library) << " " << inner << " x "
            << rows << ", column " << c << " of " << columns;
      }
      const std::size_t first = chance() % columns;
      const std::size_t count = 1 + chance() % (columns - first);
      const auto part = product.multiply(*kernels, first, count);
      ASSERT_TRUE(same_bits(std::span(whole).subspan(first * rows, count * rows), part))
          << kernels->name << " " << ggml_type_name(format.library);
    }
  }
}

TEST(LlamaProduct, TablesGiveTheSameBits) {
  std::mt19937 chance(2);
  for (const Format& format : kFormats) {
    for (const std::size_t columns : {1U, 3U, 17U}) {
      const Case product(format, some_inner(format, chance), 71, columns, chance);
      const auto expected = product.multiply(*supported_llama_kernels().front(), 0, columns);
      for (const LlamaKernels* const kernels : supported_llama_kernels()) {
        EXPECT_TRUE(same_bits(expected, product.multiply(*kernels, 0, columns)))
            << kernels->name << " " << ggml_type_name(format.library);
      }
    }
  }
}

TEST(LlamaProduct, IsTheProductOfWhatTheFormatsMean) {
  std::mt19937 chance(3);
  for (const Format& format : kFormats) {
    const Case product(format, 768, 64, 5, chance);
    for (const LlamaKernels* const kernels : supported_llama_kernels()) {
      // Activations have eight bits with the quantized formats.
      const double limit = is_quantized(format) ? 0.01 : 1e-6;
      EXPECT_LT(product.error(product.multiply(*kernels, 0, 5)), limit)
          << kernels->name << " " << ggml_type_name(format.library);
    }
  }
}

TEST(LlamaProduct, LongRowsAreComputedInParts) {
  std::mt19937 chance(4);
  for (const Format& format : kFormats) {
    const Case product(format, 3 * 4096 + 256, 33, 4, chance);
    for (const LlamaKernels* const kernels : supported_llama_kernels()) {
      const auto whole = product.multiply(*kernels, 0, 4);
      EXPECT_LT(product.error(whole), is_quantized(format) ? 0.01 : 1e-5);
      EXPECT_TRUE(same_bits(product.column(whole, 3), product.multiply(*kernels, 3, 1)));
    }
  }
}

float product_of(const LlamaKernels& kernels, const Format& format, std::span<const std::byte> row,
                 std::span<const float> activations) {
  const std::size_t inner = activations.size();
  std::vector<std::byte> packed(packed_bytes(format.type, inner), std::byte{0x5a});
  kernels.pack(format.type, activations.data(), inner, 0, inner / pack_unit(format.type),
               packed.data());
  alignas(64) static std::array<std::byte, kProductScratch> scratch;
  float out = NAN;
  kernels.multiply(
      {.type = format.type, .data = row.data(), .row_bytes = row.size(), .inner = inner}, 1,
      {.packed = packed.data(),
       .packed_bytes = packed.size(),
       .count = 1,
       .out = &out,
       .out_stride = 1},
      scratch.data());
  return out;
}

// 127 divided by a number below 2^-121 is no float: zeros beside it became -128 times its scale.
TEST(LlamaProduct, ActivationsOfZeroGiveZeroAsDoThoseNextToIt) {
  std::mt19937 chance(5);
  for (const Format& format : kFormats) {
    const auto weights = numbers(chance, 256, 1);
    std::vector<std::byte> row(ggml_row_size(format.library, 256));
    if (format.library == GGML_TYPE_F32) {
      std::memcpy(row.data(), weights.data(), row.size());
    } else {
      ggml_quantize_chunk(format.library, weights.data(), row.data(), 0, 1, 256, nullptr);
    }
    std::vector<float> activations(256, 0.0F);
    for (const LlamaKernels* const kernels : supported_llama_kernels()) {
      EXPECT_EQ(product_of(*kernels, format, row, activations), 0)
          << kernels->name << " " << ggml_type_name(format.library);
    }
    if (!is_quantized(format)) continue;
    activations[7] = 1e-37F;
    for (const LlamaKernels* const kernels : supported_llama_kernels()) {
      EXPECT_EQ(product_of(*kernels, format, row, activations), 0)
          << kernels->name << " " << ggml_type_name(format.library);
    }
  }
}

}  // namespace
}  // namespace afterimage
