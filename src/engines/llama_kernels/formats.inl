// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// The formats of quantized weights: how a block of a row becomes bytes and scales. Source of the
// layouts: ggml-common.h of llama.cpp.
namespace afterimage {
namespace {

// kFewColumns: how many are multiplied row by row, because unpacking a tile takes longer (measured).

// Formats with one scale for 32 weights. A weight is (byte - kOffset) * scale. kSmall: bytes are at
// most 127.

constexpr int kWideOffset = kSignedBytes ? 0 : 128;

inline HalfInts widened(HalfInts signed_bytes) {
  if constexpr (kSignedBytes) return signed_bytes;
  return signed_bytes ^ all_bytes(0x80);
}

struct Q8Block {
  static constexpr std::size_t kBytes = 34;
  static constexpr std::size_t kFewColumns = 2;
  static constexpr int kOffset = kWideOffset;
  static constexpr bool kSmall = false;
  static HalfInts bytes(const std::byte* block) { return widened(load32(block + 2)); }
  static HalfFloats scales(const std::byte* const (&blocks)[8], std::size_t at) {
    return f16_of_rows(blocks, at);
  }
};

struct Q4Block {
  static constexpr std::size_t kBytes = 18;
  static constexpr std::size_t kFewColumns = 1;
  static constexpr int kOffset = 8;
  static constexpr bool kSmall = true;
  static HalfInts bytes(const std::byte* block) { return nibbles(block + 2); }
  static HalfFloats scales(const std::byte* const (&blocks)[8], std::size_t at) {
    return f16_of_rows(blocks, at);
  }
};

struct Q5Block {
  static constexpr std::size_t kBytes = 22;
  static constexpr std::size_t kFewColumns = 1;
  static constexpr int kOffset = 16;
  static constexpr bool kSmall = true;
  static HalfInts bytes(const std::byte* block) {
    // Byte i gets byte i / 8 of the bits, of which bit i % 8 is its own.
    alignas(32) static constexpr std::uint64_t kByteOfBit[] = {
        0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303};
    const HalfInts spread = looked_up(all_half(i32(block + 2)), load32(kByteOfBit));
    const HalfInts own = all_quads(0x8040201008040201);
    const HalfInts is_set = equal_bytes(spread & own, own);
    return nibbles(block + 6) | (is_set & all_bytes(16));
  }
  static HalfFloats scales(const std::byte* const (&blocks)[8], std::size_t at) {
    return f16_of_rows(blocks, at);
  }
};

struct Iq4Block {
  static constexpr std::size_t kBytes = 18;
  static constexpr std::size_t kFewColumns = 1;
  static constexpr int kOffset = kWideOffset;
  static constexpr bool kSmall = false;
  static HalfInts bytes(const std::byte* block) {
    alignas(16) static constexpr std::int8_t kValues[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                          1,    13,   25,  38,  53,  69,  89,  113};
    return widened(looked_up(load16_twice(kValues), nibbles(block + 2)));
  }
  static HalfFloats scales(const std::byte* const (&blocks)[8], std::size_t at) {
    return f16_of_rows(blocks, at);
  }
};

struct Mxfp4Block {
  static constexpr std::size_t kBytes = 17;
  static constexpr std::size_t kFewColumns = 1;
  static constexpr int kOffset = kWideOffset;
  static constexpr bool kSmall = false;
  static HalfInts bytes(const std::byte* block) {
    alignas(16) static constexpr std::int8_t kValues[] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                          0, -1, -2, -3, -4, -6, -8, -12};
    return widened(looked_up(load16_twice(kValues), nibbles(block + 1)));
  }
  /// 2^(e - 128), because the table has twice the values.
  static HalfFloats scales(const std::byte* const (&blocks)[8], std::size_t at) {
    float scales[8];
    for (std::size_t i = 0; i < 8; ++i) {
      const auto e = static_cast<std::uint32_t>(blocks[i][at]);
      scales[i] = __builtin_bit_cast(float, e < 2 ? 0x00200000U << e : (e - 1) << 23);
    }
    return load_half(scales);
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

/// Of the eight groups of a block, from bytes.
class GroupScales {
 public:
  explicit GroupScales(std::uint64_t bytes) : bytes_(all_quads(bytes)) {}
  HalfInts of(std::size_t group) const {
    return looked_up(bytes_, all_words(static_cast<std::int16_t>(0x8000 | group)));
  }

 private:
  HalfInts bytes_;
};

inline HalfInts nibbles_of_k(const std::byte* at, std::size_t upper) {
  const HalfInts both = load32(at);
  return (upper != 0 ? right16(both, 4) : both) & all_bytes(15);
}

struct Q4KBlock {
  static constexpr std::size_t kBytes = 144;
  static constexpr std::size_t kFewColumns = 2;
  static constexpr int kOffset = 0;
  static constexpr bool kHasMinima = true;
  static constexpr std::size_t kGroup = 32;  // weights with one scale
  static constexpr std::size_t kD = 0;
  static constexpr std::size_t kDmin = 2;
  static HalfInts bytes(const std::byte* block, std::size_t group) {
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
  static HalfInts bytes(const std::byte* block, std::size_t group) {
    const HalfInts own = all_bytes(static_cast<std::uint8_t>(1 << group));
    const HalfInts is_set = equal_bytes(load32(block + 16) & own, own);
    return nibbles_of_k(block + 48 + 32 * (group / 2), group % 2) | (is_set & all_bytes(16));
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
  static HalfInts bytes(const std::byte* block, std::size_t half) {
    const std::size_t part = half / 4;
    const std::size_t quarter = half % 4;
    const HalfInts low = nibbles_of_k(block + 64 * part + 32 * (quarter % 2), quarter / 2);
    const HalfInts four = load32(block + 128 + 32 * part);
    const HalfInts own = all_bytes(static_cast<std::uint8_t>(3 << (2 * quarter)));
    return low | moved(four & own, quarter);
  }
  /// Sixteen, with a sign.
  static const std::byte* scales(const std::byte* block) { return block + 192; }

 private:
  /// Two bits of each byte, from the place of a quarter to that of the upper bits of a weight.
  static HalfInts moved(HalfInts bits, std::size_t quarter) {
    switch (quarter) {
      case 0:
        return left16(bits, 4);
      case 1:
        return left16(bits, 2);
      case 2:
        return bits;
      default:
        return right16(bits, 2);
    }
  }
};

}  // namespace
}  // namespace afterimage
