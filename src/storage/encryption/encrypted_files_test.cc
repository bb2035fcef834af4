// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/encryption/encrypted_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "foundation/platform/testing/memory_files.h"

namespace afterimage {
namespace {

constexpr std::string_view kText = "what was erased, and its words";
const auto kContent = std::as_bytes(std::span(kText));

EncryptionKeys key_of(char digit) {
  return EncryptionKeys::parse(std::string(64, digit), "test").value();
}

TEST(EncryptedFiles, RoundTripAndStoreNoPlaintext) {
  testing::MemoryFiles files;
  EncryptedFiles encrypted(files, key_of('1'));
  ASSERT_TRUE(encrypted.replace("folder/list", kContent).has_value());
  EXPECT_TRUE(
      std::ranges::equal(encrypted.read("folder/list", Bytes(kText.size())).value(), kContent));
  EXPECT_EQ(encrypted.read("folder/list", Bytes(kText.size() - 1)).error().code,
            ErrorCode::kLimitExceeded);
  EXPECT_EQ(encrypted.read("folder/none", 1_KiB).error().code, ErrorCode::kNotFound);
  const auto raw = files.read("folder/list", 1_KiB).value();
  EXPECT_TRUE(std::ranges::search(raw, kContent.first(8)).empty());
  EXPECT_FALSE(encrypted.append("folder/list", kContent).has_value());
}

// A file under another key must not be reported as lost, or the caller would start a new one.
TEST(EncryptedFiles, DistinguishAnotherKeyFromDamage) {
  testing::MemoryFiles files;
  ASSERT_TRUE(EncryptedFiles(files, key_of('1')).replace("list", kContent).has_value());
  EXPECT_EQ(EncryptedFiles(files, key_of('2')).read("list", 1_KiB).error().code,
            ErrorCode::kUnavailable);
  auto raw = files.read("list", 1_KiB).value();
  raw.back() ^= std::byte{1};
  ASSERT_TRUE(files.replace("list", raw).has_value());
  ASSERT_TRUE(files.replace("plain", kContent).has_value());
  EncryptedFiles encrypted(files, key_of('1'));
  EXPECT_EQ(encrypted.read("list", 1_KiB).error().code, ErrorCode::kCorruption);
  EXPECT_EQ(encrypted.read("plain", 1_KiB).error().code, ErrorCode::kCorruption);
}

TEST(EncryptedFiles, CannotBeSwapped) {
  testing::MemoryFiles files;
  EncryptedFiles encrypted(files, key_of('1'));
  ASSERT_TRUE(encrypted.replace("a/one", kContent).has_value());
  ASSERT_TRUE(files.replace("a/two", files.read("a/one", 1_KiB).value()).has_value());
  EXPECT_EQ(encrypted.read("a/two", 1_KiB).error().code, ErrorCode::kCorruption);
  ASSERT_TRUE(files.replace("b/one", files.read("a/one", 1_KiB).value()).has_value());
  EXPECT_TRUE(encrypted.read("b/one", 1_KiB).has_value()) << "a folder may be moved";
}

}  // namespace
}  // namespace afterimage
