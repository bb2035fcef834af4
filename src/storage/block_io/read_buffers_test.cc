// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/block_io/read_buffers.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

TEST(ReadBuffersTest, PoolReturnedBuffersWithinBoundAndBudgets) {
  MemoryBudget idle(100_KiB);
  MemoryBudget room(1_MiB);
  const auto buffers = std::make_shared<ReadBuffers>(idle, 64_KiB);
  const std::byte* first = nullptr;
  {
    const auto taken = buffers->take(40'960, room).value();
    first = taken->bytes().data();
    EXPECT_EQ(room.used(), 40_KiB);
    EXPECT_EQ(idle.used(), 0_B) << "the reader is charged";
  }
  EXPECT_EQ(room.used(), 0_B);
  EXPECT_EQ(idle.used(), 40_KiB);
  {
    const auto again = buffers->take(36'864, room).value();
    EXPECT_EQ(again->bytes().data(), first) << "the same memory";
    EXPECT_EQ(room.used(), 40_KiB) << "and it is charged in full";
    const auto other = buffers->take(36'864, room).value();
    EXPECT_NE(other->bytes().data(), first);
    const auto little = buffers->take(4'096, room).value();
    EXPECT_EQ(little->bytes().size(), 4'096U) << "not a large one for a small one";
  }
  EXPECT_LE(buffers->idle(), 64_KiB);
  EXPECT_EQ(idle.used(), buffers->idle());
  {
    const auto huge = buffers->take(80'000, room).value();
  }
  EXPECT_LE(buffers->idle(), 64_KiB) << "larger than the bound: not pooled";
  MemoryBudget narrow(37_KiB);
  EXPECT_EQ(buffers->take(36'864, narrow).value()->bytes().size(), 36'864U)
      << "a larger idle one would exceed the budget";
  EXPECT_EQ(buffers->take(40'960, narrow).error().code, ErrorCode::kNoSpace);
  std::shared_ptr<AlignedBytes> outlives = buffers->take(4'096, room).value();
  buffers->close();
  EXPECT_EQ(idle.used(), 0_B);
  outlives.reset();
  EXPECT_EQ(idle.used(), 0_B);
  EXPECT_EQ(room.used(), 0_B);
}

}  // namespace
}  // namespace afterimage
