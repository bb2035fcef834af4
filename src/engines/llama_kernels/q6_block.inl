// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// One block of a row of Q6_K with each column, 32 weights at a time; q6_block_wide.inl: 64.
namespace afterimage {
namespace {

template <std::size_t C>
inline BlockSums<C> sums_of_q6_block(const std::byte* block, const PackedRow (&columns)[C],
                                     std::size_t b) {
  BlockSums<C> sums;
  const __m128i order =
      _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  const __m256i scales =
      _mm256_cvtepi8_epi16(_mm_shuffle_epi8(Q6KBlock::scales(block), order));
  static_assert(Q6KBlock::kOffset == 1 << 5);
  for (std::size_t c = 0; c < C; ++c) {
    const __m256i offsets = _mm256_madd_epi16(scales, load32(columns[c].sums + 32 * b));
    sums.whole[c] = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(offsets, 5));
  }
#pragma GCC unroll 8
  for (std::size_t half = 0; half < 8; ++half) {
    const __m256i w = Q6KBlock::bytes(block, half);
    const auto own = static_cast<std::int16_t>(0x0100 + 0x0202 * half);
    const __m256i scale = _mm256_shuffle_epi8(scales, _mm256_set1_epi16(own));
    for (std::size_t c = 0; c < C; ++c) {
      // Pairs fit into 16 bits: a weight is at most 63, an activation at most 127.
      const auto* const a =
          reinterpret_cast<const std::byte*>(columns[c].bytes + 256 * b + 32 * half);
      sums.whole[c] = dot2_of_row(sums.whole[c], _mm256_maddubs_epi16(w, load32(a)), scale);
    }
  }
  return sums;
}

}  // namespace
}  // namespace afterimage
