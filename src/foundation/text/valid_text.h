// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace afterimage {

/// `text` as valid UTF-8: each invalid byte becomes U+FFFD. Cut to at most `most_bytes`; a cut
/// never splits a character and ends in "…", which is not counted.
[[nodiscard]] std::string valid_text(std::string_view text, std::size_t most_bytes);

/// The same for text that arrives in pieces, which may end inside a character: add() returns the
/// complete characters so far.
class TextPieces {
 public:
  [[nodiscard]] std::string add(std::string_view bytes);
  /// The incomplete character at the end, as U+FFFD.
  [[nodiscard]] std::string finish();

 private:
  std::string begun_;  // bytes of an incomplete character
};

}  // namespace afterimage
