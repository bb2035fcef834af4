// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace afterimage {

/// Keeps the text of a message from spelling a control token. A tokenizer that parses control tokens
/// in a rendered chat template would take a user's "<|im_end|>" for the end of the user's turn.
///
///   rendered = apply_template(messages with each text broken by `separator`)
///   tokens   = tokenize each part between separators by itself
///
/// Text that spells no control token is left as it is, so its tokens do not change.
///
/// Cost     One pass over the text; a look-up for each distinct length of a spelling at each
///          character that begins one.
/// Threads  Any; immutable.
class ControlTokens {
 public:
  /// Spellings of one byte are ignored: they cannot be broken.
  explicit ControlTokens(std::vector<std::string> spellings);

  /// `text` with `separator` inside every occurrence of a control token's spelling.
  [[nodiscard]] std::string broken_by(std::string_view separator, std::string text) const;

 private:
  [[nodiscard]] bool begins_one(std::string_view text) const;

  std::unordered_set<std::string> spellings_;
  std::vector<std::size_t> lengths_;  // distinct, ascending
  std::string first_bytes_;           // distinct
};

/// The parts of `text` between separators; one part if there is none.
[[nodiscard]] std::vector<std::string_view> split_at(std::string_view separator,
                                                     std::string_view text);

}  // namespace afterimage
