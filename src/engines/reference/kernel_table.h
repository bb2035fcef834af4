// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

// Included by files compiled for newer processors than the rest of the program: nothing here may
// define inline functions, because the linker could keep their copy for the whole program.
#include <cstddef>

namespace afterimage {

/// Number of columns in one panel of a packed matrix.
inline constexpr std::size_t kPanelColumns = 32;
/// Sums over a row (norms, softmax) run in this many lanes on every machine; the lanes are then
/// added in order.
inline constexpr std::size_t kSumLanes = 16;

/// The right-hand side of a product: element (k, j) is
/// at[(j / 32) * panel_stride + k * row_stride + j % 32]. All 32 columns of a panel may be read.
struct Panels {
  const float* at;
  std::size_t row_stride;
  std::size_t panel_stride;
};

/// One token's step through a gated diagonal recurrence. All arrays have `width` floats.
///
///   u      = sum over t of conv[t] * input[t]
///   keep   = exp(decay * sigmoid(forget_scale * u + forget_bias))
///   state  = keep * state + sqrt(1 - keep^2) * sigmoid(admit_scale * u + admit_bias) * u
struct RecurrentStep {
  std::size_t width;
  const float* input[4];  // oldest token first, the current one last
  const float* conv[4];   // weights of the causal convolution, in the order of `input`
  const float* forget_scale;
  const float* forget_bias;
  const float* admit_scale;
  const float* admit_bias;
  const float* decay;  // negative: log of the factor kept when the forget gate is fully open
  float* state;        // in and out
  float* out;          // a copy of the new state
};

/// The hot loops, compiled once per instruction set.
///
/// Order    Every result element is computed by one fixed sequence of operations that depends only
///          on the length of its own sum: never on how many rows, columns or tokens a call has, nor
///          on the machine's vector width. Tables with equal `fused` give equal bits.
/// Shape    `n` and `width` are multiples of 16; `rows`, `inner` and `columns` are arbitrary.
/// Threads  Any.
struct Kernels {
  const char* name;  // "avx512", "avx2", "baseline"
  bool fused;        // a * b + c rounds once
  /// out[r][j] = sum over k, in increasing order and in one accumulator, of a[r][k] * b(k, j).
  void (*product)(const float* a, std::size_t a_stride, std::size_t rows, Panels b,
                  std::size_t inner, std::size_t columns, float* out, std::size_t out_stride);
  /// row[i] = exp(row[i] - max) / sum. Overwrites `row` up to n rounded up to 16.
  void (*softmax)(float* row, std::size_t n);
  /// out = in / sqrt(mean(in^2) + 1e-5) * gain
  void (*rms_norm)(const float* in, const float* gain, std::size_t n, float* out);
  /// x = x * sigmoid(x)
  void (*silu)(float* x, std::size_t n);
  /// For one number of any value, with the same bits as in the loops above.
  float (*exp)(float x);
  void (*recurrent_step)(const RecurrentStep& step);
};

}  // namespace afterimage
