// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/prefix/child_table.h"

#include <gtest/gtest.h>

#include <map>

#include "testing/seeds.h"

namespace afterimage {
namespace {

// Few keys and many erasures: probe sequences collide and wrap around the end of the table.
TEST(ChildTableProperty, AgreesWithAnOrderedMap) {
  testing::for_each_seed(50, [](Rng& rng) {
    ChildTable table;
    std::map<std::uint64_t, std::uint32_t> model;
    for (std::uint32_t step = 0; step < 600; ++step) {
      const std::uint64_t key = rng.below(40) << 32U | rng.below(3);
      if (rng.chance(0.5)) {
        table.put({.key = key, .length = 1, .node = step});
        model[key] = step;
      } else {
        table.erase(key);
        model.erase(key);
      }
      ASSERT_EQ(table.size(), model.size());
      for (std::uint64_t k = 0; k < 120; ++k) {
        const std::uint64_t probe = k / 3 << 32U | k % 3;
        const auto it = model.find(probe);
        const ChildTable::Child* const found = table.find(probe);
        ASSERT_EQ(found != nullptr, it != model.end());
        if (found != nullptr) {
          ASSERT_EQ(found->node, it->second);
        }
      }
    }
  });
}

}  // namespace
}  // namespace afterimage
