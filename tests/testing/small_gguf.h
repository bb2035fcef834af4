// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "testing/written_sequence.h"

/// GGUF files small enough to be made by a test.
namespace afterimage::testing {

/// Version 3, for what tests need: values that are texts or floats, tensors of floats.
class SmallGguf {
 public:
  SmallGguf& text(const std::string& key, const std::string& value) {
    put_key(key, 8);
    put_string(value, values_);
    return *this;
  }
  SmallGguf& number(const std::string& key, float value) {
    put_key(key, 6);
    append_number(value, values_);
    return *this;
  }
  /// The fastest dimension first. Element i is `of(i)`.
  template <typename Of>
  SmallGguf& tensor(const std::string& name, std::uint64_t columns, std::uint64_t rows, Of of) {
    put_string(name, infos_);
    append_number(std::uint32_t{2}, infos_);
    append_number(columns, infos_);
    append_number(rows, infos_);
    append_number(std::uint32_t{0}, infos_);  // f32
    append_number(std::uint64_t{payload_.size()}, infos_);
    for (std::uint64_t i = 0; i < columns * rows; ++i) {
      append_number(static_cast<float>(of(i)), payload_);
    }
    payload_.resize((payload_.size() + kAlignment - 1) / kAlignment * kAlignment);
    ++tensors_;
    return *this;
  }

  [[nodiscard]] WrittenBytes bytes() const {
    WrittenBytes all;
    for (const char c : {'G', 'G', 'U', 'F'}) append_number(c, all);
    append_number(std::uint32_t{3}, all);
    append_number(tensors_, all);
    append_number(count_, all);
    all.insert(all.end(), values_.begin(), values_.end());
    all.insert(all.end(), infos_.begin(), infos_.end());
    all.resize((all.size() + kAlignment - 1) / kAlignment * kAlignment);
    all.insert(all.end(), payload_.begin(), payload_.end());
    return all;
  }

 private:
  static constexpr std::size_t kAlignment = 32;

  static void put_string(const std::string& text, WrittenBytes& to) {
    append_number(std::uint64_t{text.size()}, to);
    for (const char c : text) append_number(c, to);
  }
  void put_key(const std::string& key, std::uint32_t type) {
    put_string(key, values_);
    append_number(type, values_);
    ++count_;
  }

  std::uint64_t count_ = 0;
  std::uint64_t tensors_ = 0;
  WrittenBytes values_;
  WrittenBytes infos_;
  WrittenBytes payload_;
};

/// A LoRA adapter of rank 2 for the demo model "plain", that turns its first layer's outputs.
inline WrittenBytes plain_adapter(float strength = 1.0F) {
  constexpr std::uint64_t kWidth = 64;
  const auto wave = [](std::uint64_t i) { return static_cast<float>(i * 37 % 19) / 19.0F - 0.5F; };
  return SmallGguf()
      .text("general.type", "adapter")
      .text("general.architecture", "llama")
      .text("adapter.type", "lora")
      .number("adapter.lora.alpha", 2.0F)
      .tensor("blk.0.attn_output.weight.lora_a", kWidth, 2, wave)
      .tensor("blk.0.attn_output.weight.lora_b", 2, kWidth,
              [&](std::uint64_t i) { return strength * wave(i + 5); })
      .bytes();
}

}  // namespace afterimage::testing
