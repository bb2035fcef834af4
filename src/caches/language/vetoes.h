// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

namespace afterimage {

/// In what two questions differ that look alike. Appended to, never renumbered: metrics name them.
enum class Veto : unsigned char {
  kNumber,        // 5 km, 6 km; two dogs, three dogs
  kNegation,      // is it, isn't it; with, without
  kAntonym,       // on, off; left, right; locked, unlocked
  kEntity,        // Paris, Rome: capitals that do not begin the text
  kSymbol,        // C, C++; --max-cost, --max-heads; "quoted"
  kQuestionWord,  // who, what; how, how many
};
inline constexpr std::array kVetoes{Veto::kNumber, Veto::kNegation, Veto::kAntonym,
                                    Veto::kEntity, Veto::kSymbol,   Veto::kQuestionWord};
/// "number", "negation", …
std::string_view to_string(Veto veto);

/// Why the answer to one question must not be given to the other, however alike they look: all
/// reasons, in the order above. Empty: none that this knows; it is no proof of sameness.
///
/// For candidates that a model of likeness proposes, which takes opposites for neighbours. The
/// order of the two makes no difference. English words; other scripts are compared as they stand,
/// as names and symbols are.
/// Cost     Some microseconds for questions of a dozen words.
/// Threads  Any.
/// Source   src/semantic/DESIGN.md.
[[nodiscard]] std::vector<Veto> vetoes(std::string_view a, std::string_view b);

}  // namespace afterimage
