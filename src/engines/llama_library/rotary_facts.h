// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace afterimage {

/// How a model's keys turn with a token's position (RoPE), as its file says it and as llama.cpp
/// reads the file.
/// Source   llama_model_base::load_hparams() and ggml_mrope_cache_init() of the pinned release.
struct RotaryFacts {
  enum class Kind : unsigned char {
    kNeighbours,   // numbers 2i and 2i + 1 of a head turn together ("NORM")
    kHalves,       // numbers i and i + turned / 2 ("NEOX")
    kSections,     // likewise; pairs of time, then of row, then of column ("MROPE")
    kInterleaved,  // likewise; one pair of time, one of row, one of column, and so on ("IMROPE")
  };
  Kind kind = Kind::kNeighbours;
  std::uint32_t head_size = 0;  // numbers of a key
  std::uint32_t turned = 0;     // of them, from the first
  float base = 0;               // pair i turns by scale * base^(-2i / turned) radians a step
  float scale = 1;
  /// Pairs of time, row, column and a fourth axis, on which every token is at 0.
  std::array<std::uint32_t, 4> sections{};
  /// Why this model's keys are described otherwise than by these numbers; empty: they are not.
  std::string unsupported;
};

}  // namespace afterimage
