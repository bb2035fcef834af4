// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string_view>

namespace afterimage {

/// Do two answers say the same? For evidence about reuse, off the path of requests.
enum class SameAnswer : unsigned char {
  kSame,
  kDifferent,
  kUnclear,  // both in words, and in other words: nobody here can tell. It counts as not the same
};

/// Same: equal but for case of ASCII, spaces, and marks at the end; or both begin with yes or both
/// with no (and say nothing that the other contradicts by a number); or both are one number of one
/// value ("3", "three", "3.0"). Different: one says yes and the other no, or they hold different
/// numbers.
/// Threads  Any. Cost: linear.
[[nodiscard]] SameAnswer same_answer(std::string_view a, std::string_view b);

}  // namespace afterimage
