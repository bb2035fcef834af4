// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/shared_files/shared_files_writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "testing/temporary_folder.h"

namespace afterimage {
namespace {

using testing::TemporaryFolder;

/// A tensor that knows when its owner is released.
SharedFilesWriter::Put put_of(const std::string& name, std::size_t size, unsigned value = 1) {
  auto bytes = std::make_shared<std::vector<std::byte>>(size, static_cast<std::byte>(value));
  return {.name = name,
          .form = {.dtype = "u8", .shape = {size}, .seconds = 0.5},
          .data = *bytes,
          .owner = bytes};
}

TEST(SharedFilesWriter, WritesEverythingAndReleasesNoOwnerItself) {
  const TemporaryFolder folder;
  const auto files = SharedFiles::open(folder.path(), 8_MiB);
  ASSERT_TRUE(files.has_value());
  SharedFilesWriter writer(**files, 3);
  std::map<std::string, std::weak_ptr<const void>> owners;
  for (int number = 0; number < 100; ++number) {
    auto put = put_of(fmt::format("item{}", number), 5000, static_cast<unsigned>(number));
    owners[put.name] = put.owner;
    ASSERT_TRUE(writer.put(std::move(put)).has_value());
  }
  writer.wait();
  for (const auto& [name, owner] : owners) EXPECT_FALSE(owner.expired());
  {
    const auto finished = writer.finished();
    EXPECT_EQ(finished.size(), 100U);
    for (const auto& each : finished) {
      EXPECT_TRUE(each.result.has_value() && *each.result) << each.name;
      EXPECT_TRUE((*files)->lease(each.name).has_value()) << each.name;
    }
  }
  for (const auto& [name, owner] : owners) EXPECT_TRUE(owner.expired());
  EXPECT_TRUE(writer.finished().empty());
}

TEST(SharedFilesWriter, SaysWhatHasNoSpaceAndWhatFailed) {
  const TemporaryFolder folder;
  const auto files = SharedFiles::open(folder.path(), 8000_B);
  ASSERT_TRUE(files.has_value());
  SharedFilesWriter writer(**files, 1);
  ASSERT_TRUE(writer.put(put_of("fits", 5000)).has_value());
  ASSERT_TRUE(writer.put(put_of("too large", 9000)).has_value());
  ASSERT_TRUE(writer.put(put_of("no/name", 10)).has_value());
  writer.wait();
  const auto finished = writer.finished();
  ASSERT_EQ(finished.size(), 3U);
  EXPECT_TRUE(finished[0].result.value());
  EXPECT_FALSE(finished[1].result.value());
  ASSERT_FALSE(finished[2].result.has_value());
  EXPECT_EQ(finished[2].result.error().code, ErrorCode::kInvalidArgument);
}

TEST(SharedFilesWriter, WritesWhatWasPutBeforeItCloses) {
  const TemporaryFolder folder;
  const auto files = SharedFiles::open(folder.path(), 8_MiB);
  ASSERT_TRUE(files.has_value());
  {
    SharedFilesWriter writer(**files, 2);
    for (int number = 0; number < 20; ++number) {
      ASSERT_TRUE(writer.put(put_of(fmt::format("item{}", number), 100'000)).has_value());
    }
    writer.close();
    const auto refused = writer.put(put_of("late", 10));
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    writer.close();
  }
  for (int number = 0; number < 20; ++number) {
    EXPECT_TRUE((*files)->lease(fmt::format("item{}", number)).has_value()) << number;
  }
  EXPECT_FALSE((*files)->holds("late"));
}

}  // namespace
}  // namespace afterimage
