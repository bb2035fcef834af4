// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/text/edit_distance.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace afterimage {

std::size_t edit_distance(std::string_view one, std::string_view other, std::size_t most) {
  if (std::max(one.size(), other.size()) - std::min(one.size(), other.size()) > most) {
    return most + 1;
  }
  const auto same = std::ranges::mismatch(one, other).in1 - one.begin();
  one.remove_prefix(static_cast<std::size_t>(same));
  other.remove_prefix(static_cast<std::size_t>(same));
  while (!one.empty() && !other.empty() && one.back() == other.back()) {
    one.remove_suffix(1);
    other.remove_suffix(1);
  }
  std::vector<std::size_t> row(other.size() + 1);  // distances of its beginnings from one's
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    std::size_t least = row[0];
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t replaced = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, diagonal + 1, replaced});
      least = std::min(least, row[j + 1]);
    }
    if (least > most) return least;
  }
  return row.back();
}

}  // namespace afterimage
