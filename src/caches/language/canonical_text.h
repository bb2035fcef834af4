// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "afterimage/question.h"

namespace afterimage {

/// The normal form of `question` at `level`: questions with equal forms count as the same. The form
/// is itself a text that asks the same, and folding is idempotent.
///
/// Canonical  Folds leading, trailing and repeated spaces; the capital of the first word, if
///            questions and requests begin with it; typographic apostrophes inside words;
///            unambiguous contractions (don't, I'm, what's the); and final punctuation, if the
///            first word already tells the kind of sentence.
/// Near       Also folds articles that do not change the meaning, plural s, "please", "some" before
///            a kind of thing, "what's it" and the like, "how can I" to "how do I", "which are the
///            best" to "what is the best", and capitals of a list of words. Order, numbers,
///            negation, pronouns and every other word stay.
/// Unchanged  Byte for byte: everything not made of ASCII letters (numbers, operators, names with
///            dots or slashes, other scripts), text in "quotation marks", and every capital but the
///            first. Not folded at all: texts of several lines, of fewer than three words or of
///            more than 16 KiB, with other quotation or code marks, with a colon, or about text
///            itself (spelling, grammar, translation, patterns).
/// nullopt    The match level does not apply: invalid UTF-8 or text with control characters has only the
///            exact form; text not recognised as English has no near form.
/// Cost       Linear in the length of the question.
/// Threads    Any.
/// Source     src/caches/language/DESIGN.md.
[[nodiscard]] std::optional<std::string> fold_text(std::string_view question, MatchLevel level);
/// The same without a copy: `question` itself where folding changes nothing, else `place`, which gets the form.
[[nodiscard]] std::optional<std::string_view> fold_text(std::string_view question, MatchLevel level,
                                                        std::string& place);

/// The canonical form, as fold_text() makes it, and what its words say of the near one.
struct CanonicalForm {
  std::string_view text;
  bool may_have_near = false;  // false: there is no near form
};
[[nodiscard]] std::optional<CanonicalForm> canonical_form(std::string_view question,
                                                          std::string& place);

}  // namespace afterimage
