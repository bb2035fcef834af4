// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// The loops behind Kernels. A file that includes this has defined, in an anonymous namespace:
//   Vec                 a vector of floats; kWidth of them, a divisor of 16
//   Bits                as many unsigned 32-bit integers
//   fused(a, b, c)      a * b + c
//   kTileRows, kTileVecs  accumulators of the largest product tile; they should fit the registers
// and is compiled with -ffp-contract=off: only `fused` fuses.

namespace afterimage {
namespace {

constexpr std::size_t kWidth = sizeof(Vec) / sizeof(float);
constexpr std::size_t kParts = kSumLanes / kWidth;

inline Vec load(const float* from) {
  Vec v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
inline void store(float* to, Vec v) { __builtin_memcpy(to, &v, sizeof v); }
inline Vec splat(float x) { return Vec{} + x; }
inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }
inline Vec smaller(Vec a, Vec b) { return a < b ? a : b; }
inline Vec root(Vec a) {
  for (std::size_t lane = 0; lane < kWidth; ++lane) a[lane] = __builtin_sqrtf(a[lane]);
  return a;
}

// exp on [-87, 88] to about one unit in the last place: 2^n times a polynomial on [-ln2/2, ln2/2].
inline Vec exp_of(Vec x) {
  const Vec magic = splat(12582912.0F);  // adding it rounds to an integer in the low bits
  x = smaller(larger(x, splat(-87.0F)), splat(88.0F));
  const Vec shifted = fused(x, splat(1.44269504088896341F), magic);
  const Vec n = shifted - magic;
  Vec r = fused(n, splat(-0.693359375F), x);
  r = fused(n, splat(2.12194440e-4F), r);
  Vec p = splat(1.9875691500e-4F);
  p = fused(p, r, splat(1.3981999507e-3F));
  p = fused(p, r, splat(8.3334519073e-3F));
  p = fused(p, r, splat(4.1665795894e-2F));
  p = fused(p, r, splat(1.6666665459e-1F));
  p = fused(p, r, splat(5.0000001201e-1F));
  p = fused(p, r * r, r + splat(1.0F));
  Bits exponent;
  Bits offset;
  Bits value;
  __builtin_memcpy(&exponent, &shifted, sizeof exponent);
  __builtin_memcpy(&offset, &magic, sizeof offset);
  __builtin_memcpy(&value, &p, sizeof value);
  value += (exponent - offset) << 23U;
  Vec result;
  __builtin_memcpy(&result, &value, sizeof result);
  return result;
}

inline Vec sigmoid(Vec x) { return splat(1.0F) / (splat(1.0F) + exp_of(-x)); }

// The sixteen lanes of a sum, added in order of lane.
inline float total(const Vec (&parts)[kParts]) {
  float lanes[kSumLanes];
  for (std::size_t p = 0; p < kParts; ++p) store(lanes + p * kWidth, parts[p]);
  float sum = lanes[0];
  for (std::size_t lane = 1; lane < kSumLanes; ++lane) sum += lanes[lane];
  return sum;
}

template <std::size_t kRows, std::size_t kVecs>
inline void tile(const float* a, std::size_t a_stride, const float* b, std::size_t row_stride,
                 std::size_t inner, float* out, std::size_t out_stride) {
  Vec sums[kRows][kVecs] = {};
  for (std::size_t k = 0; k < inner; ++k) {
    Vec right[kVecs];
#pragma GCC unroll 16
    for (std::size_t v = 0; v < kVecs; ++v) right[v] = load(b + k * row_stride + v * kWidth);
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kRows; ++r) {
      const Vec left = splat(a[r * a_stride + k]);
#pragma GCC unroll 16
      for (std::size_t v = 0; v < kVecs; ++v) sums[r][v] = fused(left, right[v], sums[r][v]);
    }
  }
#pragma GCC unroll 16
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < kVecs; ++v) store(out + r * out_stride + v * kWidth, sums[r][v]);
  }
}

constexpr std::size_t kPanelVecs = kPanelColumns / kWidth;
// One or two rows have registers for more columns, and so more sums that do not wait for each other.
constexpr std::size_t kFewRowsVecs = kPanelVecs < 4 ? kPanelVecs : 4;

// Rows [0, kRows) of the result, columns [0, 32) of one panel.
template <std::size_t kRows>
void panel_rows(const float* a, std::size_t a_stride, const float* panel, std::size_t row_stride,
                std::size_t inner, std::size_t columns, float* out, std::size_t out_stride) {
  constexpr std::size_t kVecs = kRows <= 2 ? kFewRowsVecs : kTileVecs;
  constexpr std::size_t kStep = kVecs * kWidth;
  if (columns == kPanelColumns) {
    for (std::size_t c = 0; c < kPanelColumns; c += kStep) {
      tile<kRows, kVecs>(a, a_stride, panel + c, row_stride, inner, out + c, out_stride);
    }
    return;
  }
  float whole[kRows * kPanelColumns];
  for (std::size_t c = 0; c < kPanelColumns; c += kStep) {
    tile<kRows, kVecs>(a, a_stride, panel + c, row_stride, inner, whole + c, kPanelColumns);
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      out[r * out_stride + c] = whole[r * kPanelColumns + c];
    }
  }
}

void product(const float* a, std::size_t a_stride, std::size_t rows, Panels b, std::size_t inner,
             std::size_t columns, float* out, std::size_t out_stride) {
  for (std::size_t first = 0; first < columns; first += kPanelColumns) {
    const float* panel = b.at + first / kPanelColumns * b.panel_stride;
    const std::size_t here = columns - first < kPanelColumns ? columns - first : kPanelColumns;
    const float* left = a;
    float* to = out + first;
    std::size_t remaining = rows;
    // Smaller tiles compute the same sums, only fewer at a time.
    const auto advance = [&](auto run, std::size_t count) {
      for (; remaining >= count; remaining -= count) {
        run(left, a_stride, panel, b.row_stride, inner, here, to, out_stride);
        left += count * a_stride;
        to += count * out_stride;
      }
    };
    advance(panel_rows<kTileRows>, kTileRows);
    advance(panel_rows<4>, 4);
    advance(panel_rows<2>, 2);
    advance(panel_rows<1>, 1);
  }
}

float largest_of(const float* row, std::size_t n) {
  Vec lanes = splat(row[0]);
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) lanes = larger(lanes, load(row + i));
  float largest = lanes[0];
  for (std::size_t lane = 1; lane < kWidth; ++lane) {
    largest = lanes[lane] > largest ? lanes[lane] : largest;
  }
  for (; i < n; ++i) largest = row[i] > largest ? row[i] : largest;
  return largest;
}

void softmax(float* row, std::size_t n) {
  const std::size_t padded = (n + kSumLanes - 1) / kSumLanes * kSumLanes;
  const float largest = largest_of(row, n);
  // The padding's exp is 2^-125, which adds nothing to a sum of 1 or more.
  for (std::size_t i = n; i < padded; ++i) row[i] = largest - 1000.0F;
  Vec sums[kParts] = {};
  for (std::size_t i = 0; i < padded; i += kSumLanes) {
    for (std::size_t p = 0; p < kParts; ++p) {
      const Vec e = exp_of(load(row + i + p * kWidth) - splat(largest));
      store(row + i + p * kWidth, e);
      sums[p] += e;
    }
  }
  const Vec scale = splat(1.0F / total(sums));
  for (std::size_t i = 0; i < padded; i += kWidth) store(row + i, load(row + i) * scale);
}

void rms_norm(const float* in, const float* gain, std::size_t n, float* out) {
  Vec sums[kParts] = {};
  for (std::size_t i = 0; i < n; i += kSumLanes) {
    for (std::size_t p = 0; p < kParts; ++p) {
      const Vec x = load(in + i + p * kWidth);
      sums[p] = fused(x, x, sums[p]);
    }
  }
  const Vec scale =
      splat(1.0F / __builtin_sqrtf(total(sums) / static_cast<float>(n) + 1e-5F));
  for (std::size_t i = 0; i < n; i += kWidth) store(out + i, load(in + i) * scale * load(gain + i));
}

void silu(float* x, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kWidth) {
    const Vec v = load(x + i);
    store(x + i, v * sigmoid(v));
  }
}

float exp_one(float x) {
  float lanes[kWidth];
  store(lanes, exp_of(splat(x)));
  return lanes[0];
}

void recurrent_step(const RecurrentStep& s) {
  for (std::size_t i = 0; i < s.width; i += kWidth) {
    Vec u = load(s.conv[0] + i) * load(s.input[0] + i);
    for (std::size_t t = 1; t < 4; ++t) u = fused(load(s.conv[t] + i), load(s.input[t] + i), u);
    const Vec forget = sigmoid(fused(load(s.forget_scale + i), u, load(s.forget_bias + i)));
    const Vec admit = sigmoid(fused(load(s.admit_scale + i), u, load(s.admit_bias + i)));
    const Vec keep = exp_of(load(s.decay + i) * forget);
    const Vec rest = root(larger(splat(1.0F) - keep * keep, Vec{}));
    const Vec h = fused(keep, load(s.state + i), rest * (admit * u));
    store(s.state + i, h);
    store(s.out + i, h);
  }
}

constexpr Kernels table(const char* name, bool fuses) {
  return {.name = name,
          .fused = fuses,
          .product = product,
          .softmax = softmax,
          .rms_norm = rms_norm,
          .silu = silu,
          .exp = exp_one,
          .recurrent_step = recurrent_step};
}

}  // namespace
}  // namespace afterimage
