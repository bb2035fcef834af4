// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// The formats of quantized weights: how a block of a row becomes bytes and scales. Source of the
// layouts: ggml-common.h of llama.cpp.
namespace afterimage {
namespace {

inline __m256i join(__m128i low, __m128i high) { return _mm256_set_m128i(high, low); }

inline __m128i load16(const std::byte* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
inline __m256i load32(const std::byte* at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
}

/// Bytes of sixteen, then the upper four bits of each.
inline __m256i nibbles(const std::byte* at) {
  const __m128i both = load16(at);
  return _mm256_and_si256(join(both, _mm_srli_epi16(both, 4)), _mm256_set1_epi8(15));
}

inline std::uint16_t u16(const std::byte* at) {
  std::uint16_t x;
  __builtin_memcpy(&x, at, sizeof x);
  return x;
}

/// The 16-bit floats at `offset` of eight rows.
inline __m256 f16_of_rows(const std::byte* const (&rows)[8], std::size_t offset) {
  return _mm256_cvtph_ps(_mm_set_epi16(
      static_cast<short>(u16(rows[7] + offset)), static_cast<short>(u16(rows[6] + offset)),
      static_cast<short>(u16(rows[5] + offset)), static_cast<short>(u16(rows[4] + offset)),
      static_cast<short>(u16(rows[3] + offset)), static_cast<short>(u16(rows[2] + offset)),
      static_cast<short>(u16(rows[1] + offset)), static_cast<short>(u16(rows[0] + offset))));
}

// kFewColumns: how many are multiplied row by row, because unpacking a tile takes longer (measured).

// Formats with one scale for 32 weights. A weight is (byte - kOffset) * scale. kSmall: bytes are at
// most 127.

constexpr int kWideOffset = kSignedBytes ? 0 : 128;

inline __m256i widened(__m256i signed_bytes) {
  if constexpr (kSignedBytes) return signed_bytes;
  return _mm256_xor_si256(signed_bytes, _mm256_set1_epi8(static_cast<char>(0x80)));
}

struct Q8Block {
  static constexpr std::size_t kBytes = 34;
  static constexpr std::size_t kFewColumns = 2;
  static constexpr int kOffset = kWideOffset;
  static constexpr bool kSmall = false;
  static __m256i bytes(const std::byte* block) { return widened(load32(block + 2)); }
  static __m256 scales(const std::byte* const (&blocks)[8], std::size_t at) {
    return f16_of_rows(blocks, at);
  }
};

struct Q4Block {
  static constexpr std::size_t kBytes = 18;
  static constexpr std::size_t kFewColumns = 1;
  static constexpr int kOffset = 8;
  static constexpr bool kSmall = true;
  static __m256i bytes(const std::byte* block) { return nibbles(block + 2); }
  static __m256 scales(const std::byte* const (&blocks)[8], std::size_t at) {
    return f16_of_rows(blocks, at);
  }
};

struct Q5Block {
  static constexpr std::size_t kBytes = 22;
  static constexpr std::size_t kFewColumns = 1;
  static constexpr int kOffset = 16;
  static constexpr bool kSmall = true;
  static __m256i bytes(const std::byte* block) {
    std::int32_t bits;
    __builtin_memcpy(&bits, block + 2, sizeof bits);
    // Byte i gets byte i / 8 of the bits, of which bit i % 8 is its own.
    const __m256i spread = _mm256_shuffle_epi8(
        _mm256_set1_epi32(bits),
        _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0));
    const __m256i own = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
    const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, own), own);
    return _mm256_or_si256(nibbles(block + 6), _mm256_and_si256(is_set, _mm256_set1_epi8(16)));
  }
  static __m256 scales(const std::byte* const (&blocks)[8], std::size_t at) {
    return f16_of_rows(blocks, at);
  }
};

inline __m256i looked_up(__m128i table, __m256i indices) {
  return widened(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), indices));
}

struct Iq4Block {
  static constexpr std::size_t kBytes = 18;
  static constexpr std::size_t kFewColumns = 1;
  static constexpr int kOffset = kWideOffset;
  static constexpr bool kSmall = false;
  static __m256i bytes(const std::byte* block) {
    return looked_up(
        _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113),
        nibbles(block + 2));
  }
  static __m256 scales(const std::byte* const (&blocks)[8], std::size_t at) {
    return f16_of_rows(blocks, at);
  }
};

struct Mxfp4Block {
  static constexpr std::size_t kBytes = 17;
  static constexpr std::size_t kFewColumns = 1;
  static constexpr int kOffset = kWideOffset;
  static constexpr bool kSmall = false;
  static __m256i bytes(const std::byte* block) {
    return looked_up(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12),
                     nibbles(block + 1));
  }
  /// 2^(e - 128), because the table has twice the values.
  static __m256 scales(const std::byte* const (&blocks)[8], std::size_t at) {
    std::uint32_t bits[8];
    for (std::size_t i = 0; i < 8; ++i) {
      const auto e = static_cast<std::uint32_t>(blocks[i][at]);
      bits[i] = e < 2 ? 0x00200000U << e : (e - 1) << 23;
    }
    return _mm256_castsi256_ps(load32(reinterpret_cast<const std::byte*>(bits)));
  }
};

// Formats of 256 weights with small whole scales. A weight is (byte - kOffset) * scale * d, less
// minimum * dmin where the format has minima. Bytes are at most 127.

/// Of eight groups, a byte each.
struct ScalesAndMinima {
  std::uint64_t scales;
  std::uint64_t minima;
};

/// Of six bits each in twelve bytes.
inline ScalesAndMinima scales_and_minima(const std::byte* at) {
  std::uint64_t low;
  std::uint32_t high;
  __builtin_memcpy(&low, at, sizeof low);
  __builtin_memcpy(&high, at + 8, sizeof high);
  const std::uint64_t first = low & 0x3f3f3f3f3f3f3f3f;  // four scales, four minima
  const std::uint64_t low_bits = (high & 0x0f0f0f0fU) | std::uint64_t{high & 0xf0f0f0f0U} << 28;
  const std::uint64_t last = low_bits | (low >> 2 & 0x3030303030303030);
  return {.scales = (first & 0xffffffff) | last << 32, .minima = first >> 32 | last >> 32 << 32};
}

/// Eight sums of two 16-bit products of a row.
inline __m256i dot2_of_row(__m256i sum, __m256i a, __m256i b) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

/// Of the eight groups of a block, from bytes.
class GroupScales {
 public:
  explicit GroupScales(std::uint64_t bytes)
      : bytes_(_mm256_set1_epi64x(static_cast<std::int64_t>(bytes))) {}
  __m256i of(std::size_t group) const {
    return _mm256_shuffle_epi8(bytes_, _mm256_set1_epi16(static_cast<std::int16_t>(0x8000 | group)));
  }

 private:
  __m256i bytes_;
};

inline __m256i nibbles_of_k(const std::byte* at, std::size_t upper) {
  const __m256i both = load32(at);
  return _mm256_and_si256(upper != 0 ? _mm256_srli_epi16(both, 4) : both, _mm256_set1_epi8(15));
}

struct Q4KBlock {
  static constexpr std::size_t kBytes = 144;
  static constexpr std::size_t kFewColumns = 2;
  static constexpr int kOffset = 0;
  static constexpr bool kHasMinima = true;
  static constexpr std::size_t kGroup = 32;  // weights with one scale
  static constexpr std::size_t kD = 0;
  static constexpr std::size_t kDmin = 2;
  static __m256i bytes(const std::byte* block, std::size_t group) {
    return nibbles_of_k(block + 16 + 32 * (group / 2), group % 2);
  }
};

struct Q5KBlock {
  static constexpr std::size_t kBytes = 176;
  static constexpr std::size_t kFewColumns = 2;
  static constexpr int kOffset = 0;
  static constexpr bool kHasMinima = true;
  static constexpr std::size_t kGroup = 32;
  static constexpr std::size_t kD = 0;
  static constexpr std::size_t kDmin = 2;
  static __m256i bytes(const std::byte* block, std::size_t group) {
    const __m256i own = _mm256_set1_epi8(static_cast<char>(1 << group));
    const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(load32(block + 16), own), own);
    return _mm256_or_si256(nibbles_of_k(block + 48 + 32 * (group / 2), group % 2),
                           _mm256_and_si256(is_set, _mm256_set1_epi8(16)));
  }
};

struct Q6KBlock {
  static constexpr std::size_t kBytes = 210;
  static constexpr std::size_t kFewColumns = 2;
  static constexpr int kOffset = 32;
  static constexpr bool kHasMinima = false;
  static constexpr std::size_t kGroup = 16;
  static constexpr std::size_t kD = 208;
  /// Weights 32 * half to 32 * half + 31.
  static __m256i bytes(const std::byte* block, std::size_t half) {
    const std::size_t part = half / 4;
    const std::size_t quarter = half % 4;
    const __m256i low = nibbles_of_k(block + 64 * part + 32 * (quarter % 2), quarter / 2);
    const __m256i four = load32(block + 128 + 32 * part);
    const __m256i own = _mm256_set1_epi8(static_cast<char>(3 << (2 * quarter)));
    return _mm256_or_si256(low, moved(_mm256_and_si256(four, own), quarter));
  }
  /// Sixteen, with a sign.
  static __m128i scales(const std::byte* block) { return load16(block + 192); }

 private:
  /// Two bits of each byte, from the place of a quarter to that of the upper bits of a weight.
  static __m256i moved(__m256i bits, std::size_t quarter) {
    switch (quarter) {
      case 0:
        return _mm256_slli_epi16(bits, 4);
      case 1:
        return _mm256_slli_epi16(bits, 2);
      case 2:
        return bits;
      default:
        return _mm256_srli_epi16(bits, 2);
    }
  }
};

}  // namespace
}  // namespace afterimage
