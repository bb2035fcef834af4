// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace afterimage {

/// How a cached question may resemble the one that is asked, the strictest first. The numeric
/// values are part of keys: append, never renumber.
enum class TextRung : unsigned char {
  kExact = 0,      // the same bytes
  kCanonical = 1,  // the same words: what differs is how they were typed
  kNear = 2,       // the same words but for articles, plurals and courtesy; English only
};
inline constexpr std::array kTextRungs{TextRung::kExact, TextRung::kCanonical, TextRung::kNear};
/// "text:exact", "text:canonical", "text:near".
std::string_view to_string(TextRung rung);

/// `question` in the form that all questions have which mean the same at `rung`. The form is again
/// a text that asks the same, and folding it once more changes nothing.
///
/// Canonical  Spaces at the ends and doubled between words; the capital of the first word, if it is
///            one with which questions and requests begin; a typographic apostrophe inside a word;
///            contractions that have one reading (don't, I'm, what's the); the marks at the end, if
///            the first word says already what kind of sentence it is.
/// Near       Besides: articles where nothing hangs on them, the s of plurals, "please", "some" of
///            what is asked for by kind, "what's it" and its like, "how can I" for "how do I",
///            "which are the best" for "what is the best", and capitals of a few words that mean
///            the same with one. Order, numbers, negation, pronouns, and every other word stay.
/// Kept       Byte for byte: whatever is not made of ASCII letters (numbers, operators, names with
///            dots or slashes, other scripts), what stands in "quotation marks", and every other
///            capital letter but the first. Texts of several lines, of fewer than three words, with
///            other marks of quotation or code, with a colon, or about texts (spelling, grammar,
///            translation, patterns) are kept whole.
/// nullopt    The rung does not apply: bytes that are not UTF-8 or hold control characters have
///            only the exact form; what is not recognised as English has no near one.
/// Cost       Linear in the length of the question.
/// Threads    Any.
/// Source     src/semantic/DESIGN.md.
[[nodiscard]] std::optional<std::string> fold_text(std::string_view question, TextRung rung);

}  // namespace afterimage
