// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string_view>

namespace afterimage {

/// Whether two answers agree. Used to gather evidence, not on the request path.
enum class SameAnswer : unsigned char {
  kSame,
  kDifferent,
  kUnclear,  // cannot be decided; counts as not the same
};

/// kSame: equal up to ASCII case, spaces and final punctuation; or both begin with yes, or both
/// with no, without contradicting numbers; or both are one number of equal value ("3", "three",
/// "3.0"). kDifferent: one says yes and the other no, or their numbers differ. kUnclear: anything
/// else.
/// Threads  Any.
/// Cost     Linear.
[[nodiscard]] SameAnswer same_answer(std::string_view a, std::string_view b);

}  // namespace afterimage
