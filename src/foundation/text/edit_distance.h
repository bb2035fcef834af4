// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>

namespace afterimage {

/// How many bytes must be inserted, removed or replaced to turn `one` into `other` (Levenshtein). If
/// that is more than `most`, it returns any number above `most`.
///
/// Cost  The product of the sizes; less where the beginnings or ends are the same, or `most` is small.
std::size_t edit_distance(std::string_view one, std::string_view other,
                          std::size_t most = std::numeric_limits<std::size_t>::max() - 1);

}  // namespace afterimage
