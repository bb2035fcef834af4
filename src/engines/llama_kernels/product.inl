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
  return largest(max(low_half(x), high_half(x)));
}

/// Rounds `count` numbers to whole multiples of a scale, which is returned.
inline float pack_block(const float* in, std::size_t count, std::int8_t* out) {
  Floats most = zero();
  for (std::size_t i = 0; i < count; i += 16) most = max(most, magnitude(load(in + i)));
  const float highest = largest(most);
  const float inverse = 127.0F / highest;  // infinite of zero, and of a few that are next to it
  const Floats factor = all(inverse < __builtin_inff() ? inverse : 0.0F);
  for (std::size_t i = 0; i < count; i += 16) store_bytes(out + i, mul(load(in + i), factor));
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
  std::int32_t* bytes;   // [inner / 4][kTileRows], four weights each
  float* d;              // [blocks][kTileRows]
  float* dmin;           // the same, of formats with minima
  std::int32_t* scales;  // [groups][kTileRows], of formats with 256 weights
  std::int32_t* minima;  // [pairs of groups][kTileRows], two 16-bit numbers each
};

inline Tile tile_in(std::byte* scratch) {
  constexpr std::size_t kBytes = kInnerChunk * kTileRows;
  constexpr std::size_t kFloats = kInnerChunk / 32 * kTileRows;
  Tile tile{};
  tile.bytes = reinterpret_cast<std::int32_t*>(scratch);
  tile.d = reinterpret_cast<float*>(scratch + kBytes);
  tile.dmin = tile.d + kFloats;
  tile.scales = reinterpret_cast<std::int32_t*>(tile.dmin + kFloats);
  tile.minima = tile.scales + 2 * kFloats;
  static_assert(kBytes + 5 * kFloats * sizeof(float) <= kProductScratch);
  return tile;
}

/// Rows are read side by side, which processors don't foresee. They are fetched into the second
/// cache this far ahead, which is a whole number of `together` bytes.
inline std::size_t ahead_of(std::size_t together) {
  constexpr std::size_t kAhead = 20 * 1024;
  return (kAhead + together - 1) / together * together;
}
inline void fetch(const std::byte* at) {
  constexpr int kToRead = 0;
  constexpr int kIntoSecondCache = 2;
  __builtin_prefetch(at, kToRead, kIntoSecondCache);
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
    HalfInts bytes[8];
    for (std::size_t r = 0; r < 8; ++r) {
      const std::byte* const block = rows[r] + b * Block::kBytes;
      fetch(block + ahead);
      bytes[r] = Block::bytes(block);
    }
    store_transposed8(bytes, tile.bytes + 8 * b * kTileRows + lane, kTileRows);
    store(tile.d + b * kTileRows + lane, Block::scales(rows, b * Block::kBytes));
  }
}

/// The scales and minima of a block of eight rows: groups first, so that a vector has those of all
/// rows.
struct ScalesOfRows {
  HalfInts scales[8];  // [group]
  HalfInts minima[8];

  /// `at`: of their twelve bytes, six bits each.
  ScalesOfRows(const std::byte* const (&rows)[8], std::size_t at) {
    const HalfInts first = dwords_of_rows(rows, at);
    const HalfInts second = dwords_of_rows(rows, at + 4);
    const HalfInts third = dwords_of_rows(rows, at + 8);
    const HalfInts six = all_bytes(0x3f);
    const HalfInts four = all_bytes(0x0f);
    const HalfInts two = all_bytes(0x03);
    const auto high = [&](HalfInts low_bits, HalfInts high_bits) {
      return (low_bits & four) | left32(right32(high_bits, 6) & two, 4);
    };
    const HalfInts packed_scales[2] = {first & six, high(third, first)};
    const HalfInts packed_minima[2] = {second & six, high(right32(third, 4), second)};
#pragma GCC unroll 8
    for (std::size_t g = 0; g < 8; ++g) {
      scales[g] = byte_of(packed_scales[g / 4], g % 4);
      minima[g] = byte_of(packed_minima[g / 4], g % 4);
    }
  }

 private:
  static HalfInts byte_of(HalfInts dwords, std::size_t i) {
    return right32(dwords, static_cast<int>(8 * i)) & all_half(255);
  }
};

template <typename Block>
void unpack_scales(const std::byte* const (&rows)[8], std::size_t b, std::size_t lane,
                   const Tile& tile) {
  if constexpr (Block::kHasMinima) {
    const ScalesOfRows groups(rows, b * Block::kBytes + 4);
    for (std::size_t g = 0; g < 8; ++g) {
      store(tile.scales + (8 * b + g) * kTileRows + lane, groups.scales[g]);
    }
    for (std::size_t p = 0; p < 4; ++p) {
      store(tile.minima + (4 * b + p) * kTileRows + lane,
            groups.minima[2 * p] | left32(groups.minima[2 * p + 1], 16));
    }
  } else {
    for (std::size_t r = 0; r < 8; ++r) {
      std::int8_t scales[16];
      __builtin_memcpy(scales, Block::scales(rows[r] + b * Block::kBytes), sizeof scales);
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
      HalfInts bytes[8];
      for (std::size_t r = 0; r < 8; ++r) {
        const std::byte* const block = rows[r] + b * Block::kBytes;
        fetch(block + ahead + part * Block::kBytes / 8);
        bytes[r] = Block::bytes(block, part);
      }
      store_transposed8(bytes, tile.bytes + 8 * (8 * b + part) * kTileRows + lane, kTileRows);
    }
    unpack_scales<Block>(rows, b, lane, tile);
    store(tile.d + b * kTileRows + lane, f16_of_rows(rows, b * Block::kBytes + Block::kD));
    if constexpr (Block::kHasMinima) {
      store(tile.dmin + b * kTileRows + lane,
            f16_of_rows(rows, b * Block::kBytes + Block::kDmin));
    }
  }
}

inline Ints four_bytes(const std::int8_t* at) {
  return all(i32(reinterpret_cast<const std::byte*>(at)));
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
  const std::int32_t* weights = tile.bytes;
  for (std::size_t b = 0; b < inner / 32; ++b) {
    Ints whole[kTileVectors][C];
    for (std::size_t c = 0; c < C; ++c) {
      const Ints start = all(reinterpret_cast<const std::int32_t*>(columns[c].sums)[b]);
      for (std::size_t v = 0; v < kTileVectors; ++v) whole[v][c] = start;
    }
#pragma GCC unroll 8
    for (std::size_t k = 0; k < 32; k += 4) {
      Ints w[kTileVectors];
      for (std::size_t v = 0; v < kTileVectors; ++v) w[v] = load(weights + 16 * v);
      weights += kTileRows;
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
  const std::int32_t* weights = tile.bytes;
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
        for (std::size_t v = 0; v < kTileVectors; ++v) w[v] = load(weights + 16 * v);
        weights += kTileRows;
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

inline void store_rows(float* out, HalfFloats sums, std::size_t rows) {
  if (rows >= 8) return store(out, sums);
  float all_rows[8];
  store(all_rows, sums);
  for (std::size_t r = 0; r < rows; ++r) out[r] = all_rows[r];
}

template <typename Block>
HalfFloats multiply_rows(const std::byte* const (&rows)[8], std::size_t ahead, std::size_t inner,
                     const PackedRow& column) {
  HalfFloats sums = all_half(0.0F);
  for (std::size_t b = 0; b < inner / 32; ++b) {
    const HalfInts a = load32(column.bytes + 32 * b);
    HalfInts parts[8];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < 8; ++r) {
      const std::byte* const block = rows[r] + b * Block::kBytes;
      fetch(block + ahead);
      const HalfInts w = Block::bytes(block);
      parts[r] = Block::kSmall ? dot4_small(HalfInts{}, w, a) : dot4(HalfInts{}, w, a);
    }
    const HalfInts offset = all_half(reinterpret_cast<const std::int32_t*>(column.sums)[b]);
    const HalfFloats scale =
        mul(Block::scales(rows, b * Block::kBytes), all_half(column.scales[b]));
    sums = fused(to_floats(add(sums_of_eight(parts), offset)), scale, sums);
  }
  return sums;
}

template <typename Block, std::size_t C>
inline BlockSums<C> sums_of_groups(const std::byte* block, std::uint64_t scales,
                                   const PackedRow (&columns)[C], std::size_t b) {
  const GroupScales scale(scales);
  BlockSums<C> sums;
  for (std::size_t c = 0; c < C; ++c) sums.whole[c] = HalfInts{};
#pragma GCC unroll 8
  for (std::size_t g = 0; g < 8; ++g) {
    const HalfInts w = Block::bytes(block, g);
    for (std::size_t c = 0; c < C; ++c) {
      const HalfInts a = load32(columns[c].bytes + 256 * b + 32 * g);
      sums.whole[c] = add_scaled(sums.whole[c], w, a, scale.of(g));
    }
  }
  return sums;
}

/// What is kept of one block of eight rows.
template <typename Block, std::size_t C>
struct KeptBlock {
  HalfInts whole[C][8];
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
inline HalfInts products_of_minima(const std::uint64_t (&minima)[8], const std::byte* of_groups) {
  const HalfInts groups = load16_twice(of_groups);
  HalfInts of_two_rows[4];
  for (std::size_t i = 0; i < 4; ++i) {
    of_two_rows[i] = dot2(HalfInts{}, words_of_bytes(&minima[2 * i]), groups);
  }
  return sums_of_halves(of_two_rows);
}

/// Adds a block of eight rows to their sums.
template <typename Block, std::size_t C>
inline void add_block(const KeptBlock<Block, C>& kept, const PackedRow (&columns)[C], std::size_t b,
                      HalfFloats (&sums)[C]) {
  const PairsOfF16 scales = pairs_of_f16(kept.scales);
  for (std::size_t c = 0; c < C; ++c) {
    const HalfFloats scale = all_half(columns[c].scales[b]);
    sums[c] = fused(to_floats(sums_of_eight(kept.whole[c])), mul(scales.lower, scale), sums[c]);
    if constexpr (Block::kHasMinima) {
      const HalfInts minima = products_of_minima(kept.minima, columns[c].sums + 16 * b);
      sums[c] = fused_minus(to_floats(minima), mul(scales.upper, scale), sums[c]);
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
    HalfFloats sums[C];
    for (std::size_t c = 0; c < C; ++c) sums[c] = all_half(0.0F);
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
inline FourFloats gathered(const Floats (&x)[kFloatRows]) {
  HalfFloats halves[kFloatRows];
  for (std::size_t r = 0; r < kFloatRows; ++r) halves[r] = add(low_half(x[r]), high_half(x[r]));
  return sums_of_four(halves);
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
                          std::size_t length, const float* const (&columns)[C], FourFloats (&sums)[C]) {
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
  for (std::size_t c = 0; c < C; ++c) sums[c] = add(sums[c], gathered(parts[c]));
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
    FourFloats sums[C];
    const float* activations[C];
    for (std::size_t i = 0; i < C; ++i) {
      sums[i] = FourFloats{};
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
        store(out, sums[i]);
      } else {
        float four[kFloatRows];
        store(four, sums[i]);
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
