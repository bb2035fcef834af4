// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/file_cell.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

#include "foundation/platform/testing/memory_files.h"

namespace afterimage {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(FileCell, IsReplacedOnlyByWhoeverReadItsLastValue) {
  testing::MemoryFiles files;
  FileCell cell(files, "cell");
  EXPECT_FALSE(cell.read().value().has_value());
  EXPECT_TRUE(cell.replace(std::nullopt, bytes("one")).value());
  EXPECT_FALSE(cell.replace(std::nullopt, bytes("another")).value());
  const auto one = cell.read().value();
  EXPECT_TRUE(cell.replace(one->version, bytes("two")).value());
  EXPECT_FALSE(cell.replace(one->version, bytes("three")).value());
  EXPECT_EQ(cell.read().value()->version, "two");
}

TEST(FileCell, AFileThatCannotBeReadIsNotReplaced) {
  testing::MemoryFiles files;
  FileCell cell(files, "cell");
  const std::string large(FileCell::kMostBytes.value() + 1, 'x');
  ASSERT_TRUE(files.replace("cell", bytes(large)).has_value());
  EXPECT_EQ(cell.read().error().code, ErrorCode::kLimitExceeded);
  EXPECT_FALSE(cell.replace(std::nullopt, bytes("one")).has_value());
}

}  // namespace
}  // namespace afterimage
