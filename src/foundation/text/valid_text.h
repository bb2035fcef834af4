// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace afterimage {

/// `text` as valid UTF-8: each byte that is not part of a character becomes U+FFFD. At most
/// `most_bytes` of it; a cut never splits a character, and ends in "…" (which may be beyond).
[[nodiscard]] std::string valid_text(std::string_view text, std::size_t most_bytes);

/// The same for text that comes in pieces, which may end inside a character: gives what is whole.
class TextPieces {
 public:
  [[nodiscard]] std::string add(std::string_view bytes);
  /// What was begun and will not be ended.
  [[nodiscard]] std::string finish();

 private:
  std::string begun_;  // of one character
};

}  // namespace afterimage
