// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string_view>

namespace afterimage {

/// Whether the words of `reference` stand in `output`, together and in order. nullopt: there is no
/// reference, and nothing to be right about.
///
/// Words    Runs of letters and digits of any script, whatever the case (of Latin, Greek and
///          Cyrillic letters), with a + or # behind them: "no" is not in "know", nor C in C++. Of
///          scripts that are written without spaces every character is a word.
/// Threads  Any. Cost  Linear in the output, times the words of the reference.
[[nodiscard]] std::optional<bool> answer_matches(std::string_view output,
                                                 std::string_view reference);

}  // namespace afterimage
