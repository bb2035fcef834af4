// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "engines/llama_kernels/kernels.h"
#include "ggml.h"

namespace afterimage {
namespace {

constexpr std::uint16_t kUnseen = 0xfc00;  // -infinity

void copy_floats(const void* row, float* out, std::int64_t width) {
  std::memcpy(out, row, static_cast<std::size_t>(width) * sizeof(float));
}

struct Shape {
  std::size_t rows, keys, key_width, value_width;
  bool is_f16 = true;
  float soft_cap = 0;
  float slope = 1;
};

/// Random queries, keys, values and masks. Row i sees the keys [first(i), end(i)).
class Case {
 public:
  Case(const Shape& shape, std::mt19937& chance)
      : shape_(shape),
        queries_(numbers(chance, shape.rows * shape.key_width)),
        keys_(numbers(chance, shape.keys * shape.key_width)),
        values_(numbers(chance, shape.keys * shape.value_width)) {
    for (std::size_t i = 0; i < shape.rows; ++i) {
      ends_.push_back(1 + chance() % shape.keys);
      firsts_.push_back(chance() % ends_.back());
      for (std::size_t k = 0; k < shape.keys; ++k) {
        const bool is_seen = k >= firsts_[i] && k < ends_[i];
        mask_.push_back(is_seen ? ggml_fp32_to_fp16(-0.25F * static_cast<float>(k % 3)) : kUnseen);
      }
    }
    if (shape.is_f16) {
      round(keys_, half_keys_);
      round(values_, half_values_);
    }
  }

  /// Rows [first, first + count) in one call of each chunk, of `keys` keys.
  [[nodiscard]] std::vector<float> attend(const LlamaKernels& kernels, std::size_t first,
                                          std::size_t count, std::size_t keys,
                                          std::optional<float> sink = std::nullopt) const {
    const std::size_t width = (shape_.value_width + 15) / 16 * 16;
    std::vector<float> gathered(2 * count * width);
    std::vector<AttentionRow> total(count);
    std::vector<AttentionRow> chunk(count);
    const std::size_t bytes = attention_scratch(shape_.key_width, shape_.value_width, count);
    const std::unique_ptr<std::byte, decltype(&std::free)> scratch(
        static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)), &std::free);
    const auto clear = [&](AttentionRow& row, float* values) {
      row.highest = -std::numeric_limits<float>::infinity();
      row.weight = 0;
      row.values = values;
      std::fill_n(values, width, 0.0F);
    };
    for (std::size_t i = 0; i < count; ++i) {
      chunk[i].query = queries_.data() + (first + i) * shape_.key_width;
      chunk[i].mask = mask_.data() + (first + i) * shape_.keys;
      chunk[i].slope = shape_.slope;
      clear(total[i], gathered.data() + i * width);
    }
    for (std::size_t begin = 0; begin < keys; begin += kKeyChunk) {
      for (std::size_t i = 0; i < count; ++i) {
        clear(chunk[i], gathered.data() + (count + i) * width);
      }
      kernels.attend({.scale = 0.125F, .soft_cap = shape_.soft_cap},
                     rows_of(keys_, half_keys_, shape_.key_width),
                     rows_of(values_, half_values_, shape_.value_width), begin,
                     std::min(keys, begin + kKeyChunk), chunk.data(), count, scratch.get());
      for (std::size_t i = 0; i < count; ++i) kernels.merge(&total[i], &chunk[i], width);
    }
    std::vector<float> out(count * shape_.value_width);
    for (std::size_t i = 0; i < count; ++i) {
      kernels.finish(&total[i], sink.has_value() ? &*sink : nullptr, shape_.value_width,
                     out.data() + i * shape_.value_width);
    }
    return out;
  }

  /// By the definition, in double precision: the largest difference.
  [[nodiscard]] double error(std::span<const float> found,
                             std::optional<float> sink = std::nullopt) const {
    double most = 0;
    for (std::size_t i = 0; i < shape_.rows; ++i) {
      std::vector<double> expected(shape_.value_width);
      double weight = sink.has_value() ? std::exp(*sink) : 0;
      for (std::size_t k = firsts_[i]; k < ends_[i]; ++k) {
        double score = 0;
        for (std::size_t d = 0; d < shape_.key_width; ++d) {
          score += static_cast<double>(queries_[i * shape_.key_width + d]) *
                   keys_[k * shape_.key_width + d];
        }
        score *= 0.125;
        if (shape_.soft_cap != 0) score = shape_.soft_cap * std::tanh(score);
        score += shape_.slope * -0.25 * static_cast<double>(k % 3);
        weight += std::exp(score);
        for (std::size_t d = 0; d < shape_.value_width; ++d) {
          expected[d] += std::exp(score) * values_[k * shape_.value_width + d];
        }
      }
      for (std::size_t d = 0; d < shape_.value_width; ++d) {
        most = std::max(most, std::abs(expected[d] / weight - found[i * shape_.value_width + d]));
      }
    }
    return most;
  }

  /// What no row sees is replaced.
  void fill_unseen(float with) {
    for (std::size_t k = *std::ranges::max_element(ends_); k < shape_.keys; ++k) {
      for (std::size_t d = 0; d < shape_.value_width; ++d) set(values_, half_values_, k, d, with);
    }
  }
  [[nodiscard]] std::size_t last_end() const { return *std::ranges::max_element(ends_); }

 private:
  static std::vector<float> numbers(std::mt19937& chance, std::size_t count) {
    std::vector<float> made(count);
    for (float& x : made) x = static_cast<float>(chance()) * 0x1p-30F - 2;
    return made;
  }
  static void round(std::vector<float>& from, std::vector<ggml_fp16_t>& to) {
    for (float& x : from) x = ggml_fp16_to_fp32(to.emplace_back(ggml_fp32_to_fp16(x)));
  }
  void set(std::vector<float>& floats, std::vector<ggml_fp16_t>& halves, std::size_t k,
           std::size_t d, float x) const {
    floats[k * shape_.value_width + d] = x;
    if (!halves.empty()) halves[k * shape_.value_width + d] = ggml_fp32_to_fp16(x);
  }
  [[nodiscard]] CacheRows rows_of(const std::vector<float>& floats,
                                  const std::vector<ggml_fp16_t>& halves, std::size_t width) const {
    const void* const data =
        shape_.is_f16 ? static_cast<const void*>(halves.data()) : floats.data();
    return {.data = static_cast<const std::byte*>(data),
            .row_bytes = width * (shape_.is_f16 ? sizeof(ggml_fp16_t) : sizeof(float)),
            .width = width,
            .is_f16 = shape_.is_f16,
            .to_floats = copy_floats};
  }

  Shape shape_;
  std::vector<float> queries_, keys_, values_;
  std::vector<ggml_fp16_t> half_keys_, half_values_;
  std::vector<std::uint16_t> mask_;
  std::vector<std::size_t> firsts_, ends_;
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

Shape some_shape(std::mt19937& chance) {
  return {.rows = 1 + chance() % 20,
          .keys = 1 + chance() % (chance() % 4 == 0 ? 1300 : 200),
          .key_width = 8 * (1 + chance() % 20),
          .value_width = 8 * (1 + chance() % 20),
          .is_f16 = chance() % 4 != 0,
          .soft_cap = chance() % 4 == 0 ? 5.0F : 0.0F,
          .slope = chance() % 4 == 0 ? 0.5F : 1.0F};
}

TEST(LlamaAttention, IsTheWeightedMeanOfValues) {
  std::mt19937 chance(1);
  for (int i = 0; i < 100; ++i) {
    const Shape shape = some_shape(chance);
    const Case attention(shape, chance);
    for (const LlamaKernels* const kernels : supported_llama_kernels()) {
      EXPECT_LT(attention.error(attention.attend(*kernels, 0, shape.rows, shape.keys)), 2e-5)
          << kernels->name << " " << shape.keys << " keys of " << shape.key_width;
      EXPECT_LT(attention.error(attention.attend(*kernels, 0, shape.rows, shape.keys, 1.5F), 1.5F),
                2e-5);
    }
  }
}

TEST(LlamaAttention, ARowAloneHasTheBitsThatItHasInEveryBatch) {
  std::mt19937 chance(2);
  for (int i = 0; i < 1000; ++i) {
    const Shape shape = some_shape(chance);
    const Case attention(shape, chance);
    std::vector<float> expected;
    for (const LlamaKernels* const kernels : supported_llama_kernels()) {
      const auto whole = attention.attend(*kernels, 0, shape.rows, shape.keys);
      if (expected.empty()) expected = whole;
      ASSERT_TRUE(same_bits(expected, whole)) << kernels->name;  // as another table
      const std::size_t row = chance() % shape.rows;
      ASSERT_TRUE(same_bits(std::span(whole).subspan(row * shape.value_width, shape.value_width),
                            attention.attend(*kernels, row, 1, shape.keys)))
          << kernels->name << " row " << row << " of " << shape.rows << ", " << shape.keys
          << " keys";
    }
  }
}

// Cells behind those of a prompt hold what another prompt left there, or nothing yet.
TEST(LlamaAttention, KeysThatNoRowSeesChangeNoBit) {
  std::mt19937 chance(3);
  for (int i = 0; i < 200; ++i) {
    const Shape shape = some_shape(chance);
    Case attention(shape, chance);
    for (const LlamaKernels* const kernels : supported_llama_kernels()) {
      const auto whole = attention.attend(*kernels, 0, shape.rows, shape.keys);
      ASSERT_TRUE(
          same_bits(whole, attention.attend(*kernels, 0, shape.rows, attention.last_end())));
      attention.fill_unseen(-1000);
      ASSERT_TRUE(same_bits(whole, attention.attend(*kernels, 0, shape.rows, shape.keys)));
    }
  }
}

}  // namespace
}  // namespace afterimage
