// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string_view>

namespace afterimage {

/// Whether the words of `reference` occur in `output`, contiguous and in order. nullopt: there is
/// no reference.
///
/// Words    Runs of letters and digits of any script, case-insensitive (Latin, Greek and Cyrillic),
///          with a trailing + or # included, and a number's sign and decimals: "no" is not in
///          "know", nor C in C++, nor 5 in -5 or 1.5. In scripts without spaces every character
///          is a word.
/// Threads  Any.
/// Cost     Linear in the output, times the words of the reference.
[[nodiscard]] std::optional<bool> answer_matches(std::string_view output,
                                                 std::string_view reference);

}  // namespace afterimage
