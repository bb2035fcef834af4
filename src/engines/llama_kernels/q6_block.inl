// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// One block of a row of Q6_K with each column, 32 weights at a time; q6_block_wide.inl: 64.
namespace afterimage {
namespace {

template <std::size_t C>
inline BlockSums<C> sums_of_q6_block(const std::byte* block, const PackedRow (&columns)[C],
                                     std::size_t b) {
  BlockSums<C> sums;
  const HalfInts scales = words_evens_first(Q6KBlock::scales(block));
  static_assert(Q6KBlock::kOffset == 1 << 5);
  for (std::size_t c = 0; c < C; ++c) {
    const HalfInts offsets = dot2(HalfInts{}, scales, load32(columns[c].sums + 32 * b));
    sums.whole[c] = sub(HalfInts{}, left32(offsets, 5));
  }
#pragma GCC unroll 8
  for (std::size_t half = 0; half < 8; ++half) {
    const HalfInts w = Q6KBlock::bytes(block, half);
    // Of the even group in one half of the register, and of the odd one in the other.
    const auto own = static_cast<std::int16_t>(0x0100 + 0x0202 * half);
    const HalfInts scale = looked_up(scales, all_words(own));
    for (std::size_t c = 0; c < C; ++c) {
      const HalfInts a = load32(columns[c].bytes + 256 * b + 32 * half);
      sums.whole[c] = add_scaled(sums.whole[c], w, a, scale);
    }
  }
  return sums;
}

}  // namespace
}  // namespace afterimage
