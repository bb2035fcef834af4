// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/tier.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

namespace afterimage {
namespace {

TEST(AlignedBytesTest, StartAtAPageAndLargeOnesAtAHugePage) {
  MemoryBudget budget(16_MiB);
  const struct {
    std::size_t size;
    std::uintptr_t alignment;
  } kCases[] = {{0, 4'096},
                {1, 4'096},
                {(2U << 20U) - 1, 4'096},
                {2U << 20U, 2U << 20U},
                {(4U << 20U) + 4'096, 2U << 20U}};
  for (const auto& c : kCases) {
    const auto bytes = AlignedBytes::create(c.size, budget).value();
    EXPECT_EQ(bytes->bytes().size(), c.size);
    EXPECT_EQ(std::bit_cast<std::uintptr_t>(bytes->bytes().data()) % c.alignment, 0U) << c.size;
    EXPECT_EQ(budget.used(), Bytes(c.size)) << "the usable size, without alignment";
  }
  EXPECT_EQ(budget.used(), 0_B);
  EXPECT_EQ(AlignedBytes::create(17U << 20U, budget).error().code, ErrorCode::kNoSpace);
}

}  // namespace
}  // namespace afterimage
