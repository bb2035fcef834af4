// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace afterimage {

/// A difference that makes two similar questions ask different things. Append, never renumber:
/// metrics use the names.
enum class Veto : unsigned char {
  kNumber,        // 5 km, 6 km; two dogs, three dogs
  kNegation,      // is it, isn't it; with, without
  kAntonym,       // on, off; left, right; locked, unlocked
  kEntity,        // Paris, Rome: capitalized words other than the first
  kSymbol,        // C, C++; --max-cost, --max-heads; "quoted"
  kQuestionWord,  // who, what; how, how many
  kOrder,         // miles to kilometers, kilometers to miles; a taller than b, b taller than a
  kCase,          // Polish, polish; US, us: words that a capital turns into others
  kAccent,        // zahlen, zählen; papa, papá: uncased models read them as one word
  kWord,          // cup, cap: words that may not differ; only of differ_only_in()
};
inline constexpr std::array kVetoes{
    Veto::kNumber,       Veto::kNegation, Veto::kAntonym, Veto::kEntity, Veto::kSymbol,
    Veto::kQuestionWord, Veto::kOrder,    Veto::kCase,    Veto::kAccent, Veto::kWord};
/// "number", "negation", …
std::string_view to_string(Veto veto);

/// All reasons why the answer to one question must not serve the other, in the order above. Empty:
/// no known reason, which does not prove that they ask the same.
///
/// For candidates found by vector similarity, which cannot tell opposites apart. Symmetric. Knows
/// English words; other scripts, names and symbols are compared byte for byte.
/// Cost     Some microseconds for questions of a dozen words.
/// Threads  Any.
/// Source   src/caches/language/DESIGN.md.
[[nodiscard]] std::vector<Veto> vetoes(std::string_view a, std::string_view b);

/// Words in lower case, without punctuation.
using WordSet = std::set<std::string, std::less<>>;
/// Whether the two texts have the same words in the same order, but for words of this set. Any
/// language that separates words by spaces; ignores the case of ASCII letters.
[[nodiscard]] bool differ_only_in(const WordSet& words, std::string_view a, std::string_view b);
/// Whether a question word says all that tells two English texts apart, but for articles and their
/// like: "Where is the cup?", "Tell me what the cup is." "What" and "which" say nothing alone.
[[nodiscard]] bool differ_by_a_question_word(std::string_view a, std::string_view b);

}  // namespace afterimage
