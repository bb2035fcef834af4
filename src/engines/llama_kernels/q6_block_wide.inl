// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// One block of a row of Q6_K with each column, 64 weights at a time. The sums are whole numbers, so they are those of
// q6_block.inl.
namespace afterimage {
namespace {

inline __m512i load64(const std::byte* at) { return _mm512_loadu_si512(at); }
inline __m512i twice(__m256i x) { return _mm512_broadcast_i64x4(x); }
inline __m512i halves(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
inline __m256i added_halves(__m512i x) {
  return _mm256_add_epi32(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
}

/// For each half of the register its own of two neighbouring scales, of those in each 128 bits.
inline __m512i two_scales(__m512i scales, std::size_t pair) {
  const auto first = static_cast<std::int16_t>(0x0100 + 0x0404 * pair);
  const auto second = static_cast<std::int16_t>(0x0302 + 0x0404 * pair);
  return _mm512_shuffle_epi8(scales,
                             halves(_mm256_set1_epi16(first), _mm256_set1_epi16(second)));
}

template <std::size_t C>
inline BlockSums<C> sums_of_q6_block(const std::byte* block, const PackedRow (&columns)[C],
                                     std::size_t b) {
  BlockSums<C> sums;
  const __m256i all_scales = words_evens_first(Q6KBlock::scales(block));
  const __m512i scales = twice(all_scales);
  static_assert(Q6KBlock::kOffset == 1 << 5);
  __m512i whole[C][2];
  for (std::size_t c = 0; c < C; ++c) {
    const __m256i offsets = _mm256_madd_epi16(all_scales, load32(columns[c].sums + 32 * b));
    whole[c][0] = _mm512_zextsi256_si512(
        _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(offsets, 5)));
    whole[c][1] = _mm512_setzero_si512();
  }
  const __m512i upwards = halves(_mm256_set1_epi16(4), _mm256_set1_epi16(2));
  const __m512i downwards = halves(_mm256_setzero_si256(), _mm256_set1_epi16(2));
#pragma GCC unroll 4
  for (std::size_t pair = 0; pair < 4; ++pair) {
    const __m512i both = load64(block + 64 * (pair / 2));
    const __m512i four = twice(load32(block + 128 + 32 * (pair / 2)));
    const __m512i low = pair % 2 == 0 ? both : _mm512_srli_epi16(both, 4);
    // Two bits of each byte, to the place of the upper bits of a weight.
    const __m512i high = pair % 2 == 0 ? _mm512_sllv_epi16(four, upwards)
                                       : _mm512_srlv_epi16(four, downwards);
    const __m512i w = _mm512_or_si512(_mm512_and_si512(low, _mm512_set1_epi8(15)),
                                      _mm512_and_si512(high, _mm512_set1_epi8(0x30)));
    const __m512i scale = two_scales(scales, pair);
    for (std::size_t c = 0; c < C; ++c) {
      // Pairs fit into 16 bits: a weight is at most 63, an activation at most 127.
      const __m512i a =
          load64(reinterpret_cast<const std::byte*>(columns[c].bytes + 256 * b + 64 * pair));
      __m512i& sum = whole[c][pair % 2];
      sum = _mm512_dpwssd_epi32(sum, _mm512_maddubs_epi16(w, a), scale);
    }
  }
  for (std::size_t c = 0; c < C; ++c) sums.whole[c] = added_halves(_mm512_add_epi32(whole[c][0], whole[c][1]));
  return sums;
}

}  // namespace
}  // namespace afterimage
