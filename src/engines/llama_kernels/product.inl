// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Products of quantized weights and packed activations, in one order whatever the number of rows:
// the whole sum of a block is exact, and blocks are added one after the other in one accumulator.
#include "engines/llama_kernels/formats.inl"
#include "engines/llama_kernels/packed_row.inl"
#ifdef __AVX512VNNI__
#include "engines/llama_kernels/q6_block_wide.inl"
#else
#include "engines/llama_kernels/q6_block.inl"
#endif

namespace afterimage {
namespace {

constexpr std::size_t kTileRows = 16 * kTileVectors;
constexpr std::size_t kInnerChunk = 4096;  // weights of a row that are unpacked at a time

inline std::int32_t sum_of(const std::int8_t* bytes, std::size_t count) {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += bytes[i];
  return sum;
}

/// The largest of sixteen.
inline float largest(Floats x) {
  const __m256 half = _mm256_max_ps(low_half(x), high_half(x));
  __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  quarter = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_max_ss(quarter, _mm_movehdup_ps(quarter)));
}

/// Rounds `count` numbers to whole multiples of a scale, which is returned.
inline float pack_block(const float* in, std::size_t count, std::int8_t* out) {
  Floats most = zero();
  for (std::size_t i = 0; i < count; i += 16) most = max(most, magnitude(load(in + i)));
  const float highest = largest(most);
  const Floats inverse = all(highest == 0 ? 0.0F : 127.0F / highest);
  for (std::size_t i = 0; i < count; i += 16) store_bytes(out + i, mul(load(in + i), inverse));
  return highest / 127.0F;
}

void pack_blocks(const float* row, std::size_t inner, std::size_t first, std::size_t last,
                 int offset, std::byte* packed) {
  auto* const bytes = reinterpret_cast<std::int8_t*>(packed);
  auto* const scales = reinterpret_cast<float*>(packed + inner);
  auto* const sums = reinterpret_cast<std::int32_t*>(scales + inner / 32);
  for (std::size_t b = first; b < last; ++b) {
    scales[b] = pack_block(row + 32 * b, 32, bytes + 32 * b);
    sums[b] = -offset * sum_of(bytes + 32 * b, 32);
  }
}

/// Where the sum of one of sixteen groups is: those of even groups are in one half of a register.
constexpr std::size_t evens_first(std::size_t group) { return group % 2 * 8 + group / 2; }

void pack_k_blocks(const float* row, std::size_t inner, std::size_t first, std::size_t last,
                   bool has_minima, std::byte* packed) {
  auto* const bytes = reinterpret_cast<std::int8_t*>(packed);
  auto* const scales = reinterpret_cast<float*>(packed + inner);
  auto* const sums = reinterpret_cast<std::byte*>(scales + inner / 256);
  for (std::size_t b = first; b < last; ++b) {
    scales[b] = pack_block(row + 256 * b, 256, bytes + 256 * b);
    if (has_minima) {
      auto* const of_groups = reinterpret_cast<std::int16_t*>(sums) + 8 * b;
      for (std::size_t g = 0; g < 8; ++g) {
        of_groups[g] = static_cast<std::int16_t>(sum_of(bytes + 256 * b + 32 * g, 32));
      }
    } else {
      auto* const of_groups = reinterpret_cast<std::int16_t*>(sums) + 16 * b;
      for (std::size_t g = 0; g < 16; ++g) {
        of_groups[evens_first(g)] =
            static_cast<std::int16_t>(sum_of(bytes + 256 * b + 16 * g, 16));
      }
    }
  }
}

// A tile: kTileRows rows side by side. Four bytes of each row, then the next four of each.

struct Tile {
  std::uint8_t* bytes;   // [inner / 4][kTileRows][4]
  float* d;              // [blocks][kTileRows]
  float* dmin;           // the same, of formats with minima
  std::int32_t* scales;  // [groups][kTileRows], of formats with 256 weights
  std::int32_t* minima;  // [pairs of groups][kTileRows], two 16-bit numbers each
};

inline Tile tile_in(std::byte* scratch) {
  constexpr std::size_t kBytes = kInnerChunk * kTileRows;
  constexpr std::size_t kFloats = kInnerChunk / 32 * kTileRows;
  Tile tile{};
  tile.bytes = reinterpret_cast<std::uint8_t*>(scratch);
  tile.d = reinterpret_cast<float*>(scratch + kBytes);
  tile.dmin = tile.d + kFloats;
  tile.scales = reinterpret_cast<std::int32_t*>(tile.dmin + kFloats);
  tile.minima = tile.scales + 2 * kFloats;
  static_assert(kBytes + 5 * kFloats * sizeof(float) <= kProductScratch);
  return tile;
}

/// Rows become columns: in[r] has eight times four bytes of row r.
inline void store_bytes_transposed(const __m256i (&in)[8], std::uint8_t* out) {
  __m256i a[8];
  for (std::size_t i = 0; i < 4; ++i) {
    a[2 * i] = _mm256_unpacklo_epi32(in[2 * i], in[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_epi32(in[2 * i], in[2 * i + 1]);
  }
  for (std::size_t c = 0; c < 4; ++c) {
    const std::size_t x = c / 2;
    const __m256i first =
        c % 2 == 0 ? _mm256_unpacklo_epi64(a[x], a[2 + x]) : _mm256_unpackhi_epi64(a[x], a[2 + x]);
    const __m256i last = c % 2 == 0 ? _mm256_unpacklo_epi64(a[4 + x], a[6 + x])
                                    : _mm256_unpackhi_epi64(a[4 + x], a[6 + x]);
    constexpr std::size_t kStep = 4 * kTileRows;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + c * kStep),
                        _mm256_permute2x128_si256(first, last, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + (4 + c) * kStep),
                        _mm256_permute2x128_si256(first, last, 0x31));
  }
}

/// Rows are read side by side, which processors don't foresee. They are fetched into the second
/// cache this far ahead, which is a whole number of `together` bytes.
inline std::size_t ahead_of(std::size_t together) {
  constexpr std::size_t kAhead = 20 * 1024;
  return (kAhead + together - 1) / together * together;
}
inline void fetch(const std::byte* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
}

inline void eight_rows(const WeightRows& weights, std::size_t rows, std::size_t first,
                       const std::byte* (&at)[8]) {
  for (std::size_t i = 0; i < 8; ++i) {
    const std::size_t row = first + i < rows ? first + i : rows - 1;  // the last one again
    at[i] = weights.data + row * weights.row_bytes;
  }
}

template <typename Block>
void unpack(const std::byte* const (&rows)[8], std::size_t ahead, std::size_t inner,
            std::size_t lane, const Tile& tile) {
  for (std::size_t b = 0; b < inner / 32; ++b) {
    __m256i bytes[8];
    for (std::size_t r = 0; r < 8; ++r) {
      const std::byte* const block = rows[r] + b * Block::kBytes;
      fetch(block + ahead);
      bytes[r] = Block::bytes(block);
    }
    store_bytes_transposed(bytes, tile.bytes + (8 * b * kTileRows + lane) * 4);
    _mm256_storeu_ps(tile.d + b * kTileRows + lane, Block::scales(rows, b * Block::kBytes));
  }
}

/// The scales and minima of a block of eight rows: groups first, so that a vector has those of all
/// rows.
struct ScalesOfRows {
  __m256i scales[8];  // [group]
  __m256i minima[8];

  /// `at`: of their twelve bytes, six bits each.
  ScalesOfRows(const std::byte* const (&rows)[8], std::size_t at) {
    const __m256i first = dwords_of(rows, at);
    const __m256i second = dwords_of(rows, at + 4);
    const __m256i third = dwords_of(rows, at + 8);
    const __m256i six = _mm256_set1_epi8(0x3f);
    const __m256i four = _mm256_set1_epi8(0x0f);
    const __m256i two = _mm256_set1_epi8(0x03);
    const auto high = [&](__m256i low_bits, __m256i high_bits) {
      const __m256i moved = _mm256_and_si256(_mm256_srli_epi32(high_bits, 6), two);
      return _mm256_or_si256(_mm256_and_si256(low_bits, four), _mm256_slli_epi32(moved, 4));
    };
    const __m256i packed_scales[2] = {_mm256_and_si256(first, six), high(third, first)};
    const __m256i packed_minima[2] = {_mm256_and_si256(second, six),
                                      high(_mm256_srli_epi32(third, 4), second)};
#pragma GCC unroll 8
    for (std::size_t g = 0; g < 8; ++g) {
      scales[g] = byte_of(packed_scales[g / 4], g % 4);
      minima[g] = byte_of(packed_minima[g / 4], g % 4);
    }
  }

 private:
  static std::int32_t dword(const std::byte* at) {
    std::int32_t x;
    __builtin_memcpy(&x, at, sizeof x);
    return x;
  }
  static __m256i dwords_of(const std::byte* const (&rows)[8], std::size_t at) {
    return _mm256_setr_epi32(dword(rows[0] + at), dword(rows[1] + at), dword(rows[2] + at),
                             dword(rows[3] + at), dword(rows[4] + at), dword(rows[5] + at),
                             dword(rows[6] + at), dword(rows[7] + at));
  }
  static __m256i byte_of(__m256i dwords, std::size_t i) {
    return _mm256_and_si256(_mm256_srli_epi32(dwords, static_cast<int>(8 * i)),
                            _mm256_set1_epi32(255));
  }
};

inline void store(std::int32_t* at, __m256i x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), x);
}

template <typename Block>
void unpack_scales(const std::byte* const (&rows)[8], std::size_t b, std::size_t lane,
                   const Tile& tile) {
  if constexpr (Block::kHasMinima) {
    const ScalesOfRows groups(rows, b * Block::kBytes + 4);
    for (std::size_t g = 0; g < 8; ++g) {
      store(tile.scales + (8 * b + g) * kTileRows + lane, groups.scales[g]);
    }
    for (std::size_t p = 0; p < 4; ++p) {
      const __m256i second = _mm256_slli_epi32(groups.minima[2 * p + 1], 16);
      store(tile.minima + (4 * b + p) * kTileRows + lane,
            _mm256_or_si256(groups.minima[2 * p], second));
    }
  } else {
    for (std::size_t r = 0; r < 8; ++r) {
      alignas(16) std::int8_t scales[16];
      _mm_store_si128(reinterpret_cast<__m128i*>(scales),
                      Block::scales(rows[r] + b * Block::kBytes));
      for (std::size_t g = 0; g < 16; ++g) {
        tile.scales[(16 * b + g) * kTileRows + lane + r] = scales[g];
      }
    }
  }
}

template <typename Block>
void unpack_k(const std::byte* const (&rows)[8], std::size_t ahead, std::size_t inner,
              std::size_t lane, const Tile& tile) {
  for (std::size_t b = 0; b < inner / 256; ++b) {
    for (std::size_t part = 0; part < 8; ++part) {
      __m256i bytes[8];
      for (std::size_t r = 0; r < 8; ++r) {
        const std::byte* const block = rows[r] + b * Block::kBytes;
        fetch(block + ahead + part * Block::kBytes / 8);
        bytes[r] = Block::bytes(block, part);
      }
      store_bytes_transposed(bytes, tile.bytes + (8 * (8 * b + part) * kTileRows + lane) * 4);
    }
    unpack_scales<Block>(rows, b, lane, tile);
    _mm256_storeu_ps(tile.d + b * kTileRows + lane,
                     f16_of_rows(rows, b * Block::kBytes + Block::kD));
    if constexpr (Block::kHasMinima) {
      _mm256_storeu_ps(tile.dmin + b * kTileRows + lane,
                       f16_of_rows(rows, b * Block::kBytes + Block::kDmin));
    }
  }
}

inline Ints four_bytes(const std::int8_t* at) {
  std::int32_t x;
  __builtin_memcpy(&x, at, sizeof x);
  return all(x);
}

/// The sums of a tile's rows with C columns; those so far are in `out`, unless this is the first chunk.
template <std::size_t C>
struct TileSums {
  Floats at[kTileVectors][C];

  void start(float* const (&out)[C], bool is_first) {
    for (std::size_t c = 0; c < C; ++c) {
      for (std::size_t v = 0; v < kTileVectors; ++v)
        at[v][c] = is_first ? zero() : load(out[c] + 16 * v);
    }
  }
  void end(float* const (&out)[C]) const {
    for (std::size_t c = 0; c < C; ++c) {
      for (std::size_t v = 0; v < kTileVectors; ++v) store(out[c] + 16 * v, at[v][c]);
    }
  }
};

template <bool kSmall>
inline Ints dot(Ints sum, Ints weights, Ints activations) {
  return kSmall ? dot4_small(sum, weights, activations) : dot4(sum, weights, activations);
}

template <typename Block, std::size_t C>
void multiply_tile(const Tile& tile, std::size_t inner, const PackedRow (&columns)[C],
                   float* const (&out)[C], bool is_first) {
  TileSums<C> sums;
  sums.start(out, is_first);
  const std::uint8_t* weights = tile.bytes;
  for (std::size_t b = 0; b < inner / 32; ++b) {
    Ints whole[kTileVectors][C];
    for (std::size_t c = 0; c < C; ++c) {
      const Ints start = all(reinterpret_cast<const std::int32_t*>(columns[c].sums)[b]);
      for (std::size_t v = 0; v < kTileVectors; ++v) whole[v][c] = start;
    }
#pragma GCC unroll 8
    for (std::size_t k = 0; k < 32; k += 4) {
      Ints w[kTileVectors];
      for (std::size_t v = 0; v < kTileVectors; ++v) w[v] = load(weights + 64 * v);
      weights += 4 * kTileRows;
#pragma GCC unroll 8
      for (std::size_t c = 0; c < C; ++c) {
        const Ints a = four_bytes(columns[c].bytes + 32 * b + k);
        for (std::size_t v = 0; v < kTileVectors; ++v) {
          whole[v][c] = dot<Block::kSmall>(whole[v][c], w[v], a);
        }
      }
    }
    for (std::size_t v = 0; v < kTileVectors; ++v) {
      const Floats d = load(tile.d + b * kTileRows + 16 * v);
      for (std::size_t c = 0; c < C; ++c) {
        sums.at[v][c] =
            fused(to_floats(whole[v][c]), mul(d, all(columns[c].scales[b])), sums.at[v][c]);
      }
    }
  }
  sums.end(out);
}

template <typename Block, std::size_t C>
void multiply_k_tile(const Tile& tile, std::size_t inner, const PackedRow (&columns)[C],
                     float* const (&out)[C], bool is_first) {
  constexpr std::size_t kGroups = 256 / Block::kGroup;
  if (is_first) {
    for (std::size_t c = 0; c < C; ++c) {
      for (std::size_t v = 0; v < kTileVectors; ++v) store(out[c] + 16 * v, zero());
    }
  }
  const std::uint8_t* weights = tile.bytes;
  for (std::size_t b = 0; b < inner / 256; ++b) {
    Ints whole[kTileVectors][C];
    for (std::size_t c = 0; c < C; ++c) {
      for (std::size_t v = 0; v < kTileVectors; ++v) whole[v][c] = all(0);
    }
    for (std::size_t g = 0; g < kGroups; ++g) {
      Ints group[kTileVectors][C];
      for (std::size_t c = 0; c < C; ++c) {
        std::int32_t start = 0;
        if constexpr (!Block::kHasMinima) {
          const auto* const of_groups = reinterpret_cast<const std::int16_t*>(columns[c].sums);
          start = -Block::kOffset * of_groups[16 * b + evens_first(g)];
        }
        for (std::size_t v = 0; v < kTileVectors; ++v) group[v][c] = all(start);
      }
#pragma GCC unroll 8
      for (std::size_t k = 0; k < Block::kGroup; k += 4) {
        Ints w[kTileVectors];
        for (std::size_t v = 0; v < kTileVectors; ++v) w[v] = load(weights + 64 * v);
        weights += 4 * kTileRows;
#pragma GCC unroll 8
        for (std::size_t c = 0; c < C; ++c) {
          const Ints a = four_bytes(columns[c].bytes + 256 * b + g * Block::kGroup + k);
          for (std::size_t v = 0; v < kTileVectors; ++v)
            group[v][c] = dot4_small(group[v][c], w[v], a);
        }
      }
      for (std::size_t v = 0; v < kTileVectors; ++v) {
        const Ints scale = load(tile.scales + (b * kGroups + g) * kTileRows + 16 * v);
        for (std::size_t c = 0; c < C; ++c) whole[v][c] = add(whole[v][c], mul(group[v][c], scale));
      }
    }
    for (std::size_t v = 0; v < kTileVectors; ++v) {
      const Floats d = load(tile.d + b * kTileRows + 16 * v);
      for (std::size_t c = 0; c < C; ++c) {
        const Floats scale = all(columns[c].scales[b]);
        Floats sum = fused(to_floats(whole[v][c]), mul(d, scale), load(out[c] + 16 * v));
        if constexpr (Block::kHasMinima) {
          Ints minima = all(0);
          for (std::size_t p = 0; p < 4; ++p) {
            const auto* const of_groups = reinterpret_cast<const std::int8_t*>(columns[c].sums);
            minima = dot2(minima, load(tile.minima + (4 * b + p) * kTileRows + 16 * v),
                          four_bytes(of_groups + 16 * b + 4 * p));
          }
          sum = fused_minus(to_floats(minima), mul(load(tile.dmin + b * kTileRows + 16 * v), scale),
                            sum);
        }
        store(out[c] + 16 * v, sum);
      }
    }
  }
}

template <typename Block>
constexpr bool is_k_block() {
  return requires { Block::kGroup; };
}

template <typename Block>
constexpr std::size_t block_length() {
  return is_k_block<Block>() ? 256 : 32;
}

/// Of the activations that meet one block: 4 bytes for 32 of them, 2 for 32 of formats with minima, 2 for
/// 16 of Q6_K.
template <typename Block>
constexpr std::size_t sums_bytes() {
  if constexpr (is_k_block<Block>()) return Block::kHasMinima ? 16 : 32;
  return 4;
}

/// Columns [c, c + C) with the unpacked chunk of the inner dimension that begins at `begin`.
template <typename Block, std::size_t C>
void multiply_columns(const Tile& tile, const WeightRows& weights, const ProductColumns& columns,
                      std::size_t c, std::size_t begin, std::size_t inner, std::size_t row,
                      std::size_t rows) {
  constexpr std::size_t kBlock = block_length<Block>();
  PackedRow packed[C];
  alignas(64) float whole_tile[C][kTileRows];
  float* out[C];
  const bool is_whole = rows >= kTileRows;
  for (std::size_t i = 0; i < C; ++i) {
    packed[i] = packed_row(columns, c + i, weights.inner, kBlock);
    packed[i].bytes += begin;
    packed[i].scales += begin / kBlock;
    packed[i].sums += begin / kBlock * sums_bytes<Block>();
    float* const place = columns.out + (c + i) * columns.out_stride + row;
    out[i] = is_whole ? place : whole_tile[i];
    if (!is_whole) {
      for (std::size_t r = 0; r < kTileRows; ++r) whole_tile[i][r] = r < rows ? place[r] : 0;
    }
  }
  if constexpr (is_k_block<Block>()) {
    multiply_k_tile<Block, C>(tile, inner, packed, out, begin == 0);
  } else {
    multiply_tile<Block, C>(tile, inner, packed, out, begin == 0);
  }
  if (is_whole) return;
  for (std::size_t i = 0; i < C; ++i) {
    float* const place = columns.out + (c + i) * columns.out_stride + row;
    for (std::size_t r = 0; r < rows; ++r) place[r] = whole_tile[i][r];
  }
}

template <typename Block>
void multiply_column_group(const Tile& tile, const WeightRows& weights,
                           const ProductColumns& columns, std::size_t c, std::size_t count,
                           std::size_t begin, std::size_t inner, std::size_t row,
                           std::size_t rows) {
  switch (count) {
    case 1:
      return multiply_columns<Block, 1>(tile, weights, columns, c, begin, inner, row, rows);
    case 2:
      return multiply_columns<Block, 2>(tile, weights, columns, c, begin, inner, row, rows);
    case 3:
      return multiply_columns<Block, 3>(tile, weights, columns, c, begin, inner, row, rows);
    default:
      break;
  }
  if constexpr (kTileColumns > 3) {
    switch (count) {
      case 4:
        return multiply_columns<Block, 4>(tile, weights, columns, c, begin, inner, row, rows);
      case 5:
        return multiply_columns<Block, 5>(tile, weights, columns, c, begin, inner, row, rows);
      default:
        return multiply_columns<Block, 6>(tile, weights, columns, c, begin, inner, row, rows);
    }
  }
}

template <typename Block>
void multiply_in_tiles(const WeightRows& weights, std::size_t rows, const ProductColumns& columns,
                       std::byte* scratch) {
  const Tile tile = tile_in(scratch);
  const std::size_t ahead = ahead_of(kTileRows * weights.row_bytes);
  for (std::size_t row = 0; row < rows; row += kTileRows) {
    for (std::size_t begin = 0; begin < weights.inner; begin += kInnerChunk) {
      const std::size_t left = weights.inner - begin;
      const std::size_t inner = left < kInnerChunk ? left : kInnerChunk;
      for (std::size_t lane = 0; lane < kTileRows; lane += 8) {
        const std::byte* at[8];
        eight_rows(weights, rows, row + lane, at);
        for (const std::byte*& block : at) block += begin / block_length<Block>() * Block::kBytes;
        if constexpr (is_k_block<Block>()) {
          unpack_k<Block>(at, ahead, inner, lane, tile);
        } else {
          unpack<Block>(at, ahead, inner, lane, tile);
        }
      }
      // Groups of equal size: a last one of one column would take as long as one of six.
      const std::size_t groups = (columns.count + kTileColumns - 1) / kTileColumns;
      std::size_t c = 0;
      for (std::size_t g = 0; g < groups; ++g) {
        const std::size_t end = columns.count * (g + 1) / groups;
        multiply_column_group<Block>(tile, weights, columns, c, end - c, begin, inner, row,
                                     rows - row);
        c = end;
      }
    }
  }
}

// Few columns: unpacking a tile for them would take longer than the products. Eight rows at a time as they lie
// in memory, and the same sums.

/// The sum of each of eight registers.
inline __m256i sums_of_eight(const __m256i (&x)[8]) {
  const __m256i first =
      _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3]));
  const __m256i last =
      _mm256_hadd_epi32(_mm256_hadd_epi32(x[4], x[5]), _mm256_hadd_epi32(x[6], x[7]));
  return _mm256_add_epi32(_mm256_permute2x128_si256(first, last, 0x20),
                          _mm256_permute2x128_si256(first, last, 0x31));
}

inline void store_rows(float* out, __m256 sums, std::size_t rows) {
  if (rows >= 8) return _mm256_storeu_ps(out, sums);
  float all_rows[8];
  _mm256_storeu_ps(all_rows, sums);
  for (std::size_t r = 0; r < rows; ++r) out[r] = all_rows[r];
}

template <typename Block>
__m256 multiply_rows(const std::byte* const (&rows)[8], std::size_t ahead, std::size_t inner,
                     const PackedRow& column) {
  __m256 sums = _mm256_setzero_ps();
  for (std::size_t b = 0; b < inner / 32; ++b) {
    const __m256i a = load32(reinterpret_cast<const std::byte*>(column.bytes + 32 * b));
    __m256i parts[8];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < 8; ++r) {
      const std::byte* const block = rows[r] + b * Block::kBytes;
      fetch(block + ahead);
      const __m256i w = Block::bytes(block);
      parts[r] = Block::kSmall ? dot4_of_row_small(w, a) : dot4_of_row(w, a);
    }
    const __m256i offset = _mm256_set1_epi32(reinterpret_cast<const std::int32_t*>(column.sums)[b]);
    const __m256 scale =
        _mm256_mul_ps(Block::scales(rows, b * Block::kBytes), _mm256_set1_ps(column.scales[b]));
    sums = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(sums_of_eight(parts), offset)),
                           scale, sums);
  }
  return sums;
}

template <typename Block, std::size_t C>
inline BlockSums<C> sums_of_groups(const std::byte* block, std::uint64_t scales,
                                   const PackedRow (&columns)[C], std::size_t b) {
  const GroupScales scale(scales);
  BlockSums<C> sums;
  for (std::size_t c = 0; c < C; ++c) sums.whole[c] = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (std::size_t g = 0; g < 8; ++g) {
    const __m256i w = Block::bytes(block, g);
    for (std::size_t c = 0; c < C; ++c) {
      // Pairs fit into 16 bits: a weight is at most 31, an activation at most 127.
      const auto* const a = reinterpret_cast<const std::byte*>(columns[c].bytes + 256 * b + 32 * g);
      sums.whole[c] =
          dot2_of_row(sums.whole[c], _mm256_maddubs_epi16(w, load32(a)), scale.of(g));
    }
  }
  return sums;
}

/// What is kept of one block of eight rows.
template <typename Block, std::size_t C>
struct KeptBlock {
  __m256i whole[C][8];
  std::uint64_t minima[Block::kHasMinima ? 8 : 1];
  std::uint32_t scales[8];  // d, and dmin in the upper half
};

template <typename Block, std::size_t C>
inline void keep_block(const std::byte* block, const PackedRow (&columns)[C], std::size_t b,
                       std::size_t row, KeptBlock<Block, C>& kept) {
  BlockSums<C> sums;
  if constexpr (Block::kHasMinima) {
    static_assert(Block::kD == 0 && Block::kDmin == 2);
    __builtin_memcpy(&kept.scales[row], block, sizeof kept.scales[row]);
    const ScalesAndMinima both = scales_and_minima(block + 4);
    kept.minima[row] = both.minima;
    sums = sums_of_groups<Block>(block, both.scales, columns, b);
  } else {
    kept.scales[row] = u16(block + Block::kD);
    sums = sums_of_q6_block(block, columns, b);
  }
  for (std::size_t c = 0; c < C; ++c) kept.whole[c][row] = sums.whole[c];
}

/// Of eight rows: the products of their minima with the sums of eight groups.
inline __m256i products_of_minima(const std::uint64_t (&minima)[8], const std::byte* of_groups) {
  const __m256i groups = _mm256_broadcastsi128_si256(load16(of_groups));
  __m256i pairs[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const auto* const two_rows = reinterpret_cast<const std::byte*>(&minima[2 * i]);
    pairs[i] = _mm256_madd_epi16(_mm256_cvtepu8_epi16(load16(two_rows)), groups);
  }
  const __m256i evens_then_odds = _mm256_hadd_epi32(_mm256_hadd_epi32(pairs[0], pairs[1]),
                                                    _mm256_hadd_epi32(pairs[2], pairs[3]));
  return _mm256_permutevar8x32_epi32(evens_then_odds, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/// Adds a block of eight rows to their sums.
template <typename Block, std::size_t C>
inline void add_block(const KeptBlock<Block, C>& kept, const PackedRow (&columns)[C], std::size_t b,
                      __m256 (&sums)[C]) {
  const __m256i both = load32(reinterpret_cast<const std::byte*>(kept.scales));
  const __m256i halves = _mm256_permute4x64_epi64(
      _mm256_packus_epi32(_mm256_and_si256(both, _mm256_set1_epi32(0xffff)),
                          _mm256_srli_epi32(both, 16)),
      0xd8);
  const __m256 d = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
  for (std::size_t c = 0; c < C; ++c) {
    const __m256 scale = _mm256_set1_ps(columns[c].scales[b]);
    sums[c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums_of_eight(kept.whole[c])),
                              _mm256_mul_ps(d, scale), sums[c]);
    if constexpr (Block::kHasMinima) {
      const __m256 dmin = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
      const __m256i minima = products_of_minima(kept.minima, columns[c].sums + 16 * b);
      sums[c] = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(minima), _mm256_mul_ps(dmin, scale), sums[c]);
    }
  }
}

/// A row is read after the other, as processors foresee it and as prefetching needs it, and the sums of its blocks are
/// kept until those of eight rows are there: in the first cache, so of very long rows in pieces.
template <typename Block, std::size_t C>
void multiply_k_rows(const WeightRows& weights, std::size_t rows, const ProductColumns& columns) {
  constexpr std::size_t kBlocks = 64 / C;  // of a row at a time
  constexpr std::size_t kAhead = 6144;
  const std::size_t blocks = weights.inner / 256;
  PackedRow packed[C];
  for (std::size_t c = 0; c < C; ++c) packed[c] = packed_row(columns, c, weights.inner, 256);
  for (std::size_t row = 0; row < rows; row += 8) {
    const std::byte* at[8];
    eight_rows(weights, rows, row, at);
    __m256 sums[C];
    for (std::size_t c = 0; c < C; ++c) sums[c] = _mm256_setzero_ps();
    for (std::size_t begin = 0; begin < blocks; begin += kBlocks) {
      const std::size_t count = blocks - begin < kBlocks ? blocks - begin : kBlocks;
      KeptBlock<Block, C> kept[kBlocks];
      for (std::size_t r = 0; r < 8; ++r) {
        const std::byte* block = at[r] + begin * Block::kBytes;
        for (std::size_t b = 0; b < count; ++b, block += Block::kBytes) {
          for (std::size_t i = 0; i < Block::kBytes; i += 64) fetch(block + kAhead + i);
          keep_block(block, packed, begin + b, r, kept[b]);
        }
      }
      for (std::size_t b = 0; b < count; ++b) add_block(kept[b], packed, begin + b, sums);
    }
    for (std::size_t c = 0; c < C; ++c) {
      store_rows(columns.out + c * columns.out_stride + row, sums[c], rows - row);
    }
  }
}

template <typename Block>
void multiply_quantized(const WeightRows& weights, std::size_t rows, const ProductColumns& columns,
                        std::byte* scratch) {
  if (columns.count > Block::kFewColumns) {
    return multiply_in_tiles<Block>(weights, rows, columns, scratch);
  }
  if constexpr (is_k_block<Block>()) {
    static_assert(Block::kFewColumns == 2);
    return columns.count == 1 ? multiply_k_rows<Block, 1>(weights, rows, columns)
                              : multiply_k_rows<Block, 2>(weights, rows, columns);
  } else {
    const std::size_t ahead = ahead_of(8 * weights.row_bytes);
    for (std::size_t row = 0; row < rows; row += 8) {
      const std::byte* at[8];
      eight_rows(weights, rows, row, at);
      for (std::size_t c = 0; c < columns.count; ++c) {
        const PackedRow packed = packed_row(columns, c, weights.inner, 32);
        store_rows(columns.out + c * columns.out_stride + row,
                   multiply_rows<Block>(at, ahead, weights.inner, packed), rows - row);
      }
    }
  }
}

// Weights that are floats: sixteen partial sums of each product, gathered every kFloatChunk numbers.

constexpr std::size_t kFloatChunk = 1024;
constexpr std::size_t kFloatRows = 4;
constexpr std::size_t kFloatColumns =
    kTileColumns;  // with kFloatRows rows, as many sums as fit in registers

struct F32Weights {
  static constexpr std::size_t kBytes = 4;
  static Floats at(const std::byte* x) { return load(reinterpret_cast<const float*>(x)); }
};
struct F16Weights {
  static constexpr std::size_t kBytes = 2;
  static Floats at(const std::byte* x) { return load_f16(x); }
};
struct BF16Weights {
  static constexpr std::size_t kBytes = 2;
  static Floats at(const std::byte* x) { return load_bf16(x); }
};

/// The sixteen partial sums of each of four products, added in one order.
inline __m128 gathered(const Floats (&x)[kFloatRows]) {
  __m128 sums[kFloatRows];
  for (std::size_t r = 0; r < kFloatRows; ++r) {
    const __m256 half = _mm256_add_ps(low_half(x[r]), high_half(x[r]));
    sums[r] = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  }
  return _mm_hadd_ps(_mm_hadd_ps(sums[0], sums[1]), _mm_hadd_ps(sums[2], sums[3]));
}

/// Up to sixteen numbers at the end of a row, and zeros.
template <typename Weights>
inline Floats tail_at(const std::byte* x, std::size_t count) {
  alignas(64) std::byte padded[16 * Weights::kBytes] = {};
  __builtin_memcpy(padded, x, count * Weights::kBytes);
  return Weights::at(padded);
}

template <typename Weights, std::size_t C>
void multiply_float_chunk(const std::byte* const (&rows)[kFloatRows], std::size_t ahead,
                          std::size_t length, const float* const (&columns)[C], __m128 (&sums)[C]) {
  Floats parts[C][kFloatRows];
  for (std::size_t c = 0; c < C; ++c) {
    for (std::size_t r = 0; r < kFloatRows; ++r) parts[c][r] = zero();
  }
  const auto step = [&](std::size_t k, const auto& weights_at) {
    Floats w[kFloatRows];
    for (std::size_t r = 0; r < kFloatRows; ++r) {
      const std::byte* const at = rows[r] + k * Weights::kBytes;
      if constexpr (C == 1) fetch(at + ahead);
      w[r] = weights_at(at);
    }
#pragma GCC unroll 8
    for (std::size_t c = 0; c < C; ++c) {
      const Floats a = load(columns[c] + k);
      for (std::size_t r = 0; r < kFloatRows; ++r) parts[c][r] = fused(w[r], a, parts[c][r]);
    }
  };
  std::size_t k = 0;
  for (; k + 16 <= length; k += 16) step(k, Weights::at);
  if (k < length) {
    step(k, [&](const std::byte* x) { return tail_at<Weights>(x, length - k); });
  }
  for (std::size_t c = 0; c < C; ++c) sums[c] = _mm_add_ps(sums[c], gathered(parts[c]));
}

template <typename Weights, std::size_t C>
void multiply_float_columns(const WeightRows& weights, std::size_t rows,
                            const ProductColumns& columns, std::size_t c, std::size_t first,
                            std::size_t last) {
  for (std::size_t row = first; row < last; row += kFloatRows) {
    const std::byte* at[kFloatRows];
    for (std::size_t r = 0; r < kFloatRows; ++r) {
      at[r] = weights.data + (row + r < rows ? row + r : rows - 1) * weights.row_bytes;
    }
    __m128 sums[C];
    const float* activations[C];
    for (std::size_t i = 0; i < C; ++i) {
      sums[i] = _mm_setzero_ps();
      activations[i] =
          reinterpret_cast<const float*>(columns.packed + (c + i) * columns.packed_bytes);
    }
    for (std::size_t k = 0; k < weights.inner; k += kFloatChunk) {
      const std::size_t left = weights.inner - k;
      multiply_float_chunk<Weights, C>(at, ahead_of(kFloatRows * weights.row_bytes),
                                       left < kFloatChunk ? left : kFloatChunk, activations, sums);
      for (std::size_t r = 0; r < kFloatRows; ++r) at[r] += kFloatChunk * Weights::kBytes;
      for (std::size_t i = 0; i < C; ++i) activations[i] += kFloatChunk;
    }
    for (std::size_t i = 0; i < C; ++i) {
      float* const out = columns.out + (c + i) * columns.out_stride + row;
      if (row + kFloatRows <= last) {
        _mm_storeu_ps(out, sums[i]);
      } else {
        float four[kFloatRows];
        _mm_storeu_ps(four, sums[i]);
        for (std::size_t r = 0; row + r < last; ++r) out[r] = four[r];
      }
    }
  }
}

template <typename Weights>
void multiply_floats(const WeightRows& weights, std::size_t rows, const ProductColumns& columns) {
  constexpr std::size_t kRowsInCache = 32;
  for (std::size_t row = 0; row < rows; row += kRowsInCache) {
    const std::size_t end = row + kRowsInCache < rows ? row + kRowsInCache : rows;
    const std::size_t groups = (columns.count + kFloatColumns - 1) / kFloatColumns;
    std::size_t c = 0;
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t next = columns.count * (g + 1) / groups;
      switch (next - c) {
        case 1:
          multiply_float_columns<Weights, 1>(weights, rows, columns, c, row, end);
          break;
        case 2:
          multiply_float_columns<Weights, 2>(weights, rows, columns, c, row, end);
          break;
        case 3:
          multiply_float_columns<Weights, 3>(weights, rows, columns, c, row, end);
          break;
        default:
          if constexpr (kFloatColumns > 3) {
            switch (next - c) {
              case 4:
                multiply_float_columns<Weights, 4>(weights, rows, columns, c, row, end);
                break;
              case 5:
                multiply_float_columns<Weights, 5>(weights, rows, columns, c, row, end);
                break;
              default:
                multiply_float_columns<Weights, 6>(weights, rows, columns, c, row, end);
                break;
            }
          }
      }
      c = next;
    }
  }
}

void multiply(const WeightRows& weights, std::size_t rows, const ProductColumns& columns,
              std::byte* scratch) {
  switch (weights.type) {
    case WeightType::kF32:
      return multiply_floats<F32Weights>(weights, rows, columns);
    case WeightType::kF16:
      return multiply_floats<F16Weights>(weights, rows, columns);
    case WeightType::kBF16:
      return multiply_floats<BF16Weights>(weights, rows, columns);
    case WeightType::kQ8_0:
      return multiply_quantized<Q8Block>(weights, rows, columns, scratch);
    case WeightType::kQ5_0:
      return multiply_quantized<Q5Block>(weights, rows, columns, scratch);
    case WeightType::kQ4_0:
      return multiply_quantized<Q4Block>(weights, rows, columns, scratch);
    case WeightType::kIQ4NL:
      return multiply_quantized<Iq4Block>(weights, rows, columns, scratch);
    case WeightType::kMXFP4:
      return multiply_quantized<Mxfp4Block>(weights, rows, columns, scratch);
    case WeightType::kQ4K:
      return multiply_quantized<Q4KBlock>(weights, rows, columns, scratch);
    case WeightType::kQ5K:
      return multiply_quantized<Q5KBlock>(weights, rows, columns, scratch);
    case WeightType::kQ6K:
      return multiply_quantized<Q6KBlock>(weights, rows, columns, scratch);
  }
}

void pack(WeightType type, const float* row, std::size_t inner, std::size_t first, std::size_t last,
          std::byte* packed) {
  switch (type) {
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBF16: {
      const std::size_t begin = 32 * first;
      const std::size_t end = 32 * last < inner ? 32 * last : inner;
      __builtin_memcpy(packed + 4 * begin, row + begin, 4 * (end - begin));
      // Rows of weights end with zeros, too, which must not meet what is not a number.
      for (std::size_t i = end; end == inner && i % 16 != 0; ++i) {
        reinterpret_cast<float*>(packed)[i] = 0;
      }
      return;
    }
    case WeightType::kQ8_0:
      return pack_blocks(row, inner, first, last, Q8Block::kOffset, packed);
    case WeightType::kQ5_0:
      return pack_blocks(row, inner, first, last, Q5Block::kOffset, packed);
    case WeightType::kQ4_0:
      return pack_blocks(row, inner, first, last, Q4Block::kOffset, packed);
    case WeightType::kIQ4NL:
      return pack_blocks(row, inner, first, last, Iq4Block::kOffset, packed);
    case WeightType::kMXFP4:
      return pack_blocks(row, inner, first, last, Mxfp4Block::kOffset, packed);
    case WeightType::kQ4K:
    case WeightType::kQ5K:
      return pack_k_blocks(row, inner, first, last, true, packed);
    case WeightType::kQ6K:
      return pack_k_blocks(row, inner, first, last, false, packed);
  }
}

}  // namespace
}  // namespace afterimage
