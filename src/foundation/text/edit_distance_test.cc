// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/text/edit_distance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "foundation/platform/random.h"

namespace afterimage {
namespace {

TEST(EditDistance, CountsInsertedRemovedAndReplacedBytes) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("memory.buget", "memory.budget"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("aaaa", "aa"), 2);
}

/// By the definition.
std::size_t slow_distance(std::string_view one, std::string_view other) {
  if (one.empty() || other.empty()) return one.size() + other.size();
  const std::size_t replaced =
      slow_distance(one.substr(1), other.substr(1)) + (one[0] == other[0] ? 0 : 1);
  return std::min(
      {replaced, slow_distance(one.substr(1), other) + 1, slow_distance(one, other.substr(1)) + 1});
}

TEST(EditDistanceProperty, AgreesWithTheDefinitionUpToTheMost) {
  Rng rng(7);
  const auto text = [&] {
    std::string made;
    for (std::size_t n = rng.below(7); n > 0; --n) made += static_cast<char>('a' + rng.below(3));
    return made;
  };
  for (int i = 0; i < 2'000; ++i) {
    const std::string one = text();
    const std::string other = text();
    const std::size_t distance = slow_distance(one, other);
    EXPECT_EQ(edit_distance(one, other), distance) << one << ' ' << other;
    const std::size_t most = rng.below(6);
    const std::size_t bounded = edit_distance(one, other, most);
    EXPECT_EQ(std::min(bounded, most + 1), std::min(distance, most + 1)) << one << ' ' << other;
  }
}

}  // namespace
}  // namespace afterimage
