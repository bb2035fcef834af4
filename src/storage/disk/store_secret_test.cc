// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "afterimage/secret.h"
#include "testing/temporary_folder.h"

namespace afterimage {
namespace {

TEST(StoreSecret, IsCreatedOnceForItsOwnerOnly) {
  const testing::TemporaryFolder folder;
  const auto first = store_secret(folder.path()).value();
  EXPECT_EQ(store_secret(folder.path()).value(), first);
  struct stat status{};
  ASSERT_EQ(::stat((folder.path() + "/secret").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  const testing::TemporaryFolder another;
  EXPECT_NE(store_secret(another.path()).value(), first);
}

TEST(StoreSecret, ACrashDuringCreationLeavesNoSecret) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder.path() + "/secret.new") << "half";
  EXPECT_TRUE(store_secret(folder.path()).has_value());
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/secret.new"));
}

TEST(StoreSecret, AnInvalidSecretIsReportedAndKept) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/secret";
  std::ofstream(path) << "short";
  ::chmod(path.c_str(), 0600);
  const auto refused = store_secret(folder.path());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kCorruption);
  EXPECT_NE(refused.error().message.find(path), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(path), 5U);
}

TEST(StoreSecret, RefusesASecretThatOthersMayRead) {
  const testing::TemporaryFolder folder;
  ASSERT_TRUE(store_secret(folder.path()).has_value());
  ::chmod((folder.path() + "/secret").c_str(), 0644);
  EXPECT_EQ(store_secret(folder.path()).error().code, ErrorCode::kCorruption);
}

TEST(StoreSecret, AMissingFolderIsNamed) {
  const auto refused = store_secret("/nowhere/at/all");
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("/nowhere/at/all"), std::string::npos);
}

}  // namespace
}  // namespace afterimage
