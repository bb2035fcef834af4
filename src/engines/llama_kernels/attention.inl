// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Attention of query rows to keys in one order whatever the number of rows: kKeyBlock keys at a
// time with a running maximum, kKeyChunk keys gathered by themselves.
#include "engines/llama_kernels/product.inl"

namespace afterimage {
namespace {

constexpr std::size_t kBlockVectors = kKeyBlock / 16;
constexpr float kNothing = -__builtin_inff();

inline std::size_t round16(std::size_t n) { return (n + 15) / 16 * 16; }

/// exp(x), for x up to 88; 0 below -87. Polynomial of S. L. Moshier's expf.
inline Floats exponential(Floats x) {
  const Floats lowest = all(-87.0F);
  const Floats n = nearest(mul(max(x, lowest), all(1.44269504088896341F)));
  const Floats r =
      fused_minus(n, all(-2.12194440e-4F), fused_minus(n, all(0.693359375F), max(x, lowest)));
  Floats p = all(1.9875691500e-4F);
  p = fused(p, r, all(1.3981999507e-3F));
  p = fused(p, r, all(8.3334519073e-3F));
  p = fused(p, r, all(4.1665795894e-2F));
  p = fused(p, r, all(1.6666665459e-1F));
  p = fused(p, r, all(5.0000001201e-1F));
  p = add(fused(p, mul(r, r), r), all(1.0F));
  return where_not_below(x, lowest, mul(p, power_of_two(n)));
}

inline float exponential(float x) { return first_of(low_half(exponential(all(x)))); }

/// 1 - 2 / (exp(2x) + 1)
inline Floats hyperbolic_tangent(Floats x) {
  const Floats doubled = min(max(add(x, x), all(-40.0F)), all(40.0F));
  return sub(all(1.0F), div(all(2.0F), add(exponential(doubled), all(1.0F))));
}

inline float sum_of(Floats x) { return sum_of(add(low_half(x), high_half(x))); }

/// A block of keys and values as the loops below read them.
struct KeyBlock {
  float* keys;    // [width of keys][kKeyBlock]
  float* values;  // [kKeyBlock][round16(width of values)]
  float* rows;    // sixteen rows of keys, before they become columns
};

inline void copy_row(const CacheRows& cache, std::size_t row, float* out) {
  const std::byte* const at = cache.data + row * cache.row_bytes;
  const std::size_t padded = round16(cache.width);
  std::size_t i = 0;
  if (!cache.is_f16) {
    cache.to_floats(at, out, static_cast<std::int64_t>(cache.width));
    i = cache.width;
  } else {
    for (; i + 16 <= cache.width; i += 16) store(out + i, load_f16(at + 2 * i));
    if (i < cache.width) {
      alignas(32) std::uint16_t tail[16] = {};
      __builtin_memcpy(tail, at + 2 * i, 2 * (cache.width - i));
      store(out + i, load_f16(tail));
      i = padded;
    }
  }
  for (; i < padded; ++i) out[i] = 0;
}

inline void clear(float* out, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16) store(out + i, zero());
}

/// Keys from `begin`, `count` of them; zeros follow.
inline void load_block(const CacheRows& keys, const CacheRows& values, std::size_t begin,
                       std::size_t count, const KeyBlock& block) {
  const std::size_t padded = round16(keys.width);
  for (std::size_t first = 0; first < kKeyBlock; first += 16) {
    if (first >= count) {
      for (std::size_t d = 0; d < keys.width; ++d)
        store(block.keys + d * kKeyBlock + first, zero());
      continue;
    }
    const bool is_direct = keys.is_f16 && keys.width % 16 == 0 && first + 16 <= count;
    for (std::size_t i = 0; i < 16 && !is_direct; ++i) {
      if (first + i < count) {
        copy_row(keys, begin + first + i, block.rows + i * padded);
      } else {
        clear(block.rows + i * padded, padded);
      }
    }
    for (std::size_t d = 0; d < padded; d += 16) {
      Floats in[16];
      for (std::size_t i = 0; i < 16; ++i) {
        in[i] = is_direct ? load_f16(keys.data + (begin + first + i) * keys.row_bytes + 2 * d)
                          : load(block.rows + i * padded + d);
      }
      store_transposed(in, block.keys + d * kKeyBlock + first, kKeyBlock);
    }
  }
  const std::size_t width = round16(values.width);
  for (std::size_t i = 0; i < kKeyBlock; ++i) {
    if (i < count) {
      copy_row(values, begin + i, block.values + i * width);
    } else {
      clear(block.values + i * width, width);
    }
  }
}

/// What a mask adds to the scores of a block, and which keys it leaves.
struct BlockMask {
  Floats added[kBlockVectors];
  std::size_t first;  // key that is seen
  std::size_t end;    // of those seen; 0: none is
};

inline BlockMask mask_of(const std::uint16_t* mask, std::size_t begin, std::size_t count) {
  constexpr std::uint16_t kUnseen = 0xfc00;  // -infinity
  alignas(64) std::uint16_t halves[kKeyBlock];
  for (std::size_t i = 0; i < kKeyBlock; ++i) halves[i] = i < count ? 0 : kUnseen;
  if (mask != nullptr) __builtin_memcpy(halves, mask + begin, 2 * count);
  BlockMask found{};
  for (std::size_t v = 0; v < kBlockVectors; ++v) found.added[v] = load_f16(halves + 16 * v);
  while (found.first < kKeyBlock && halves[found.first] == kUnseen) ++found.first;
  if (found.first == kKeyBlock) return found;
  found.end = kKeyBlock;
  while (halves[found.end - 1] == kUnseen) --found.end;
  return found;
}

/// Scores of Q rows and all keys of a block.
template <std::size_t Q>
void score(const AttentionRow* const (&rows)[Q], const float* keys, std::size_t width,
           float (&scores)[kQueryTile][kKeyBlock]) {
  for (std::size_t first = 0; first < kBlockVectors; first += kKeyVectors) {
    Floats sums[Q][kKeyVectors];
    for (std::size_t q = 0; q < Q; ++q) {
      for (std::size_t v = 0; v < kKeyVectors; ++v) sums[q][v] = zero();
    }
    for (std::size_t d = 0; d < width; ++d) {
      Floats k[kKeyVectors];
      for (std::size_t v = 0; v < kKeyVectors; ++v)
        k[v] = load(keys + d * kKeyBlock + 16 * (first + v));
#pragma GCC unroll 8
      for (std::size_t q = 0; q < Q; ++q) {
        const Floats a = all(rows[q]->query[d]);
        for (std::size_t v = 0; v < kKeyVectors; ++v) sums[q][v] = fused(a, k[v], sums[q][v]);
      }
    }
    for (std::size_t q = 0; q < Q; ++q) {
      for (std::size_t v = 0; v < kKeyVectors; ++v) store(scores[q] + 16 * (first + v), sums[q][v]);
    }
  }
}

/// Makes weights of a row's scores; returns how much less what it gathered before counts now.
inline float weigh(const AttentionRule& rule, const BlockMask& mask, AttentionRow& row,
                   float (&scores)[kKeyBlock]) {
  Floats s[kBlockVectors];
  Floats most = all(kNothing);
  for (std::size_t v = 0; v < kBlockVectors; ++v) {
    s[v] = mul(load(scores + 16 * v), all(rule.scale));
    if (rule.soft_cap != 0) s[v] = mul(hyperbolic_tangent(s[v]), all(rule.soft_cap));
    s[v] = fused(all(row.slope), mask.added[v], s[v]);
    most = max(most, s[v]);
  }
  const float found = largest(most);
  const float highest = found > row.highest ? found : row.highest;
  Floats sum = zero();
  for (std::size_t v = 0; v < kBlockVectors; ++v) {
    const Floats weight = exponential(sub(s[v], all(highest)));
    store(scores + 16 * v, weight);
    sum = add(sum, weight);
  }
  const float kept = row.highest == highest ? 1.0F : exponential(row.highest - highest);
  row.weight = row.weight * kept + sum_of(sum);
  row.highest = highest;
  return kept;
}

/// Adds the values of keys [first, end) to 16 * V columns of Q rows.
template <std::size_t Q, std::size_t V>
void gather(AttentionRow* const (&rows)[Q], const float (&kept)[Q],
            const float (&scores)[kQueryTile][kKeyBlock], const float* values, std::size_t stride,
            std::size_t column, std::size_t first, std::size_t end) {
  Floats sums[Q][V];
  for (std::size_t q = 0; q < Q; ++q) {
    for (std::size_t v = 0; v < V; ++v) {
      sums[q][v] = mul(load(rows[q]->values + column + 16 * v), all(kept[q]));
    }
  }
  for (std::size_t i = first; i < end; ++i) {
    Floats x[V];
    for (std::size_t v = 0; v < V; ++v) x[v] = load(values + i * stride + column + 16 * v);
#pragma GCC unroll 8
    for (std::size_t q = 0; q < Q; ++q) {
      const Floats weight = all(scores[q][i]);
      for (std::size_t v = 0; v < V; ++v) sums[q][v] = fused(weight, x[v], sums[q][v]);
    }
  }
  // Keys that a row doesn't see add zeros, whose sign would show in a sum of -0.
  for (std::size_t q = 0; q < Q; ++q) {
    for (std::size_t v = 0; v < V; ++v) {
      store(rows[q]->values + column + 16 * v, add(sums[q][v], zero()));
    }
  }
}

template <std::size_t Q>
void attend_tile(const AttentionRule& rule, const KeyBlock& block, std::size_t key_width,
                 std::size_t value_width, const BlockMask* const (&masks)[Q],
                 AttentionRow* const (&rows)[Q]) {
  alignas(64) float scores[kQueryTile][kKeyBlock];
  const AttentionRow* queries[Q];
  for (std::size_t q = 0; q < Q; ++q) queries[q] = rows[q];
  score<Q>(queries, block.keys, key_width, scores);
  float kept[Q];
  std::size_t first = kKeyBlock;
  std::size_t end = 0;
  for (std::size_t q = 0; q < Q; ++q) {
    kept[q] = weigh(rule, *masks[q], *rows[q], scores[q]);
    if (masks[q]->first < first) first = masks[q]->first;
    if (masks[q]->end > end) end = masks[q]->end;
  }
  const std::size_t width = round16(value_width);
  std::size_t column = 0;
  for (; column + 16 * kKeyVectors <= width; column += 16 * kKeyVectors) {
    gather<Q, kKeyVectors>(rows, kept, scores, block.values, width, column, first, end);
  }
  for (; column < width; column += 16) {
    gather<Q, 1>(rows, kept, scores, block.values, width, column, first, end);
  }
}

inline void attend_rows(const AttentionRule& rule, const KeyBlock& block, std::size_t key_width,
                        std::size_t value_width, const BlockMask* const (&masks)[kQueryTile],
                        AttentionRow* const (&rows)[kQueryTile], std::size_t count) {
  const auto some = [&]<std::size_t Q>() {
    const BlockMask* first_masks[Q];
    AttentionRow* first_rows[Q];
    for (std::size_t q = 0; q < Q; ++q) {
      first_masks[q] = masks[q];
      first_rows[q] = rows[q];
    }
    attend_tile<Q>(rule, block, key_width, value_width, first_masks, first_rows);
  };
  switch (count) {
    case 1:
      return some.template operator()<1>();
    case 2:
      return some.template operator()<2>();
    case 3:
      return some.template operator()<3>();
    case 4:
      return some.template operator()<4>();
    case 5:
      return some.template operator()<5>();
    default:
      return some.template operator()<6>();
  }
}

void attend(const AttentionRule& rule, const CacheRows& keys, const CacheRows& values,
            std::size_t begin, std::size_t end, AttentionRow* rows, std::size_t count,
            std::byte* scratch) {
  KeyBlock block{};
  block.keys = reinterpret_cast<float*>(scratch);
  block.values = block.keys + round16(keys.width) * kKeyBlock;
  block.rows = block.values + round16(values.width) * kKeyBlock;
  auto* const masks = reinterpret_cast<BlockMask*>(block.rows + 16 * round16(keys.width));
  for (std::size_t at = begin; at < end; at += kKeyBlock) {
    const std::size_t length = end - at < kKeyBlock ? end - at : kKeyBlock;
    bool is_seen = false;
    for (std::size_t r = 0; r < count; ++r) {
      const bool is_same = r > 0 && rows[r].mask == rows[r - 1].mask;
      masks[r] = is_same ? masks[r - 1] : mask_of(rows[r].mask, at, length);
      is_seen |= masks[r].end > 0;
    }
    if (!is_seen) continue;
    load_block(keys, values, at, length, block);
    const BlockMask* tile_masks[kQueryTile] = {};
    AttentionRow* tile_rows[kQueryTile] = {};
    std::size_t filled = 0;
    for (std::size_t r = 0; r < count; ++r) {
      if (masks[r].end > 0) {
        tile_masks[filled] = &masks[r];
        tile_rows[filled++] = &rows[r];
      }
      if (filled == kQueryTile || (r + 1 == count && filled > 0)) {
        attend_rows(rule, block, keys.width, values.width, tile_masks, tile_rows, filled);
        filled = 0;
      }
    }
  }
}

void merge(AttentionRow* total, const AttentionRow* chunk, std::size_t width) {
  if (chunk->highest == kNothing) return;
  const float highest = total->highest > chunk->highest ? total->highest : chunk->highest;
  const float kept = total->highest == highest ? 1.0F : exponential(total->highest - highest);
  const float added = chunk->highest == highest ? 1.0F : exponential(chunk->highest - highest);
  total->weight = total->weight * kept + chunk->weight * added;
  total->highest = highest;
  for (std::size_t i = 0; i < width; i += 16) {
    const Floats before = mul(load(total->values + i), all(kept));
    store(total->values + i, fused(load(chunk->values + i), all(added), before));
  }
}

void finish(const AttentionRow* total, const float* sink, std::size_t width, float* out) {
  float kept = 1;
  float weight = total->weight;
  if (sink != nullptr) {
    const float highest = total->highest > *sink ? total->highest : *sink;
    kept = exponential(total->highest - highest);
    weight = weight * kept + exponential(*sink - highest);
  }
  const Floats share = all(weight == 0 ? 0.0F : kept / weight);
  for (std::size_t i = 0; i < width; i += 16) {
    const Floats x = mul(load(total->values + i), share);
    if (i + 16 <= width) {
      store(out + i, x);
      continue;
    }
    alignas(64) float tail[16];
    store(tail, x);
    for (std::size_t j = i; j < width; ++j) out[j] = tail[j - i];
  }
}

}  // namespace
}  // namespace afterimage
