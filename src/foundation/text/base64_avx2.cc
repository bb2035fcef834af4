// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/text/base64_avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace afterimage {

#if defined(__x86_64__)
namespace {

/// The last characters are left to the caller: they may be padding, and a store of 32 bytes needs
/// as much space.
constexpr std::size_t kLeft = 12;

/// A table for each half, since shuffles do not cross them.
__attribute__((target("avx2"))) __m256i twice(__m128i table) {
  return _mm256_broadcastsi128_si256(table);
}

__attribute__((target("avx2"))) std::size_t decode(std::string_view text, std::byte* out,
                                                   bool& is_valid) {
  // A character is in the alphabet if the entries of its two halves share no bit.
  const __m256i low_table = twice(_mm_setr_epi8(0x15, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,
                                                0x11, 0x11, 0x13, 0x1A, 0x1B, 0x1B, 0x1B, 0x1A));
  const __m256i high_table = twice(_mm_setr_epi8(0x10, 0x10, 0x01, 0x02, 0x04, 0x08, 0x04, 0x08,
                                                 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10));
  // What turns a character into its value, by its upper half; '/' has an entry of its own.
  const __m256i shift_table =
      twice(_mm_setr_epi8(0, 16, 19, 4, -65, -65, -71, -71, 0, 0, 0, 0, 0, 0, 0, 0));
  const __m256i slash = _mm256_set1_epi8('/');
  const __m256i in_order =
      twice(_mm_setr_epi8(2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1));
  const __m256i closed_up = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, -1, -1);
  __m256i wrong = _mm256_setzero_si256();
  std::size_t at = 0;
  for (; at + 32 + kLeft <= text.size(); at += 32, out += 24) {
    __m256i digits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text.data() + at));
    // Shuffles look at a byte's four lower bits, and at its highest, which this mask clears.
    const __m256i high = _mm256_and_si256(_mm256_srli_epi32(digits, 4), slash);
    const __m256i low = _mm256_and_si256(digits, slash);
    wrong = _mm256_or_si256(wrong, _mm256_and_si256(_mm256_shuffle_epi8(low_table, low),
                                                    _mm256_shuffle_epi8(high_table, high)));
    const __m256i is_slash = _mm256_cmpeq_epi8(digits, slash);
    digits =
        _mm256_add_epi8(digits, _mm256_shuffle_epi8(shift_table, _mm256_add_epi8(is_slash, high)));
    // Four values of 6 bits become three bytes.
    const __m256i pairs = _mm256_maddubs_epi16(digits, _mm256_set1_epi32(0x01400140));
    const __m256i groups = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x00011000));
    const __m256i bytes =
        _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(groups, in_order), closed_up);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), bytes);
  }
  is_valid = is_valid && _mm256_testz_si256(wrong, wrong) != 0;
  return at;
}

}  // namespace

std::size_t decode_base64_avx2(std::string_view text, std::byte* out, bool& is_valid) {
  static const bool is_supported = __builtin_cpu_supports("avx2") != 0;
  return is_supported ? decode(text, out, is_valid) : 0;
}
#else
std::size_t decode_base64_avx2(std::string_view /*text*/, std::byte* /*out*/, bool& /*is_valid*/) {
  return 0;
}
#endif

}  // namespace afterimage
