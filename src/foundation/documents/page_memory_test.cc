// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/documents/page_memory.h"

#include <gtest/gtest.h>

#include <memory>

namespace afterimage {
namespace {

PageMemory::Key key(unsigned char number) { return {std::byte{number}}; }

PageMemory::Pages pages(std::size_t count, std::size_t size) {
  PageMemory::Pages made;
  for (std::size_t i = 0; i < count; ++i) {
    made.push_back(std::make_shared<const std::vector<std::byte>>(size));
  }
  return made;
}

TEST(PageMemory, GivesBackTheSameFiles) {
  PageMemory memory(Bytes(100));
  EXPECT_FALSE(memory.find(key(1)).has_value());
  const auto kept = pages(2, 10);
  memory.keep(key(1), kept);
  EXPECT_EQ(memory.find(key(1)), kept);
  EXPECT_FALSE(memory.find(key(2)).has_value());
}

TEST(PageMemory, ForgetsWhatWasUsedLeastRecently) {
  PageMemory memory(Bytes(100));
  memory.keep(key(1), pages(4, 10));
  memory.keep(key(2), pages(4, 10));
  EXPECT_TRUE(memory.find(key(1)).has_value());
  memory.keep(key(3), pages(2, 10));
  EXPECT_TRUE(memory.find(key(2)).has_value()) << "100 bytes fit";
  EXPECT_TRUE(memory.find(key(1)).has_value());
  memory.keep(key(4), pages(1, 1));
  EXPECT_FALSE(memory.find(key(3)).has_value());
  EXPECT_TRUE(memory.find(key(1)).has_value());
  EXPECT_TRUE(memory.find(key(2)).has_value());
}

TEST(PageMemory, ADocumentThatIsLargerForgetsNothing) {
  PageMemory memory(Bytes(100));
  memory.keep(key(1), pages(10, 10));
  memory.keep(key(2), pages(1, 101));
  EXPECT_TRUE(memory.find(key(1)).has_value());
  EXPECT_FALSE(memory.find(key(2)).has_value());
  memory.keep(key(3), pages(10, 10));
  EXPECT_FALSE(memory.find(key(1)).has_value());
}

TEST(PageMemory, KeepingTwiceCountsOnce) {
  PageMemory memory(Bytes(100));
  memory.keep(key(1), pages(5, 10));
  memory.keep(key(1), pages(5, 10));
  memory.keep(key(2), pages(5, 10));
  EXPECT_TRUE(memory.find(key(1)).has_value());
}

}  // namespace
}  // namespace afterimage
