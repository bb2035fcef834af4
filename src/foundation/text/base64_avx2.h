// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <string_view>

namespace afterimage {

/// Decodes the front of base64 text, 32 characters at a time, with AVX2.
///
/// Shape    Writes 24 bytes to `out` for each 32 characters, and up to 8 more that the next ones
///          overwrite; `out` has space for 3 bytes of each 4 characters of `text`. Padding is never
///          among the decoded characters.
/// Errors   `is_valid` becomes false if a decoded character is outside the alphabet; what was written
///          is then meaningless.
/// Returns  How many characters were decoded: 0 if the text is short, or the CPU has no AVX2.
/// Threads  Any.
/// Source   W. Muła, D. Lemire: Faster Base64 Encoding and Decoding using AVX2 Instructions (2018).
std::size_t decode_base64_avx2(std::string_view text, std::byte* out, bool& is_valid);

}  // namespace afterimage
