// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/files/file_store.h"

#include <gtest/gtest.h>

#include <string>

#include "afterimage/clock.h"

namespace afterimage {
namespace {

using std::chrono_literals::operator""s;

FileInfo named(const std::string& id, const std::string& type = "text/plain") {
  FileInfo file;
  file.id = id;
  file.name = id + ".txt";
  file.purpose = "user_data";
  file.type = type;
  file.created = 100;
  return file;
}

TEST(FileStore, KeepsBytesForTheirTenant) {
  ManualClock clock;
  FileStore store(1_MiB, 10s, clock);
  const auto added = store.add("a", named("file-1"), "hello");
  ASSERT_TRUE(added.has_value());
  EXPECT_EQ(added->size, 5U);
  EXPECT_EQ(added->expires, 110);
  EXPECT_EQ(added->digest.size(), 64U);
  EXPECT_EQ(*store.content("a", "file-1")->bytes, "hello");
  EXPECT_EQ(store.content("a", "file-1")->type, "text/plain");
  EXPECT_EQ(store.info("a", "file-1")->name, "file-1.txt");
  EXPECT_EQ(store.content("b", "file-1").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store.info("b", "file-1").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store.erase("b", "file-1").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(store.list("b").empty());
  clock.advance(10s);
  EXPECT_FALSE(store.content("a", "file-1").has_value());
}

TEST(FileStore, ErasesWhatAnOperatorChooses) {
  ManualClock clock;
  FileStore store(1_MiB, 10s, clock);
  const std::string digest = store.add("a", named("file-1"), "same")->digest;
  ASSERT_TRUE(store.add("a", named("file-2"), "other").has_value());
  ASSERT_TRUE(store.add("b", named("file-3"), "same").has_value());
  EXPECT_EQ(store.erase_content(digest), 2U);
  EXPECT_FALSE(store.content("a", "file-1").has_value());
  EXPECT_FALSE(store.content("b", "file-3").has_value());
  EXPECT_TRUE(store.content("a", "file-2").has_value());
  ASSERT_TRUE(store.add("b", named("file-4"), "same").has_value());
  EXPECT_EQ(store.erase_tenants([](std::string_view tenant) { return tenant == "a"; }), 1U);
  EXPECT_FALSE(store.content("a", "file-2").has_value());
  EXPECT_TRUE(store.content("b", "file-4").has_value());
  EXPECT_EQ(store.erase_tenants([](std::string_view) { return true; }), 1U);
  EXPECT_EQ(store.bytes(), 0_B);
}

TEST(FileStore, TheSameBytesAreStoredOnce) {
  ManualClock clock;
  FileStore store(1_MiB, 10s, clock);
  const std::string bytes(100'000, 'x');
  ASSERT_TRUE(store.add("a", named("file-1"), bytes).has_value());
  const Bytes once = store.bytes();
  clock.advance(5s);
  ASSERT_TRUE(store.add("a", named("file-2"), bytes).has_value());
  EXPECT_EQ(store.bytes(), once);
  EXPECT_EQ(store.content("a", "file-1")->bytes, store.content("a", "file-2")->bytes);
  ASSERT_TRUE(store.add("b", named("file-3"), bytes).has_value());
  EXPECT_GT(store.bytes(), once) << "tenants share nothing";
  EXPECT_EQ(store.list("a").size(), 2U);
  EXPECT_EQ(store.list("a").front()->id, "file-2");
  // The bytes stay while one file has them.
  ASSERT_TRUE(store.erase("a", "file-1").has_value());
  EXPECT_TRUE(store.content("a", "file-2").has_value());
  clock.advance(6s);
  EXPECT_TRUE(store.content("a", "file-2").has_value()) << "as long as the newer file";
  ASSERT_TRUE(store.erase("b", "file-3").has_value());
  ASSERT_TRUE(store.erase("a", "file-2").has_value());
  EXPECT_EQ(store.bytes(), 0_B);
}

TEST(FileStore, IsBounded) {
  ManualClock clock;
  FileStore store(1_MiB, 10s, clock);
  EXPECT_EQ(store.add("a", named("big"), std::string(2'000'000, 'x')).error().code,
            ErrorCode::kLimitExceeded);
  ASSERT_TRUE(store.add("b", named("small"), "x").has_value());
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(
        store.add("a", named(std::to_string(i)), std::string(100'000, static_cast<char>('A' + i)))
            .has_value());
  }
  EXPECT_LE(store.bytes(), 1_MiB);
  EXPECT_FALSE(store.info("a", "0").has_value());
  EXPECT_TRUE(store.info("a", "39").has_value());
  EXPECT_TRUE(store.content("b", "small").has_value());
  EXPECT_LT(store.list("a").size(), 12U);
}

TEST(MediaTypeOf, BytesCountMoreThanWhatIsDeclared) {
  const std::string png("\x89PNG\r\n\x1a\n", 8);
  EXPECT_EQ(media_type_of(png, "text/plain"), "image/png");
  EXPECT_EQ(media_type_of(png, ""), "image/png");
  EXPECT_EQ(media_type_of("hello", "text/markdown"), "text/markdown");
  EXPECT_EQ(media_type_of("hello", ""), "text/plain");
  EXPECT_EQ(media_type_of("hello", "application/octet-stream"), "text/plain");
  EXPECT_EQ(media_type_of(std::string("\0x", 2), ""), "application/octet-stream");
  EXPECT_EQ(media_type_of("\xff", ""), "application/octet-stream");
  EXPECT_EQ(media_type_of("%PDF-1.7", "application/pdf"), "application/pdf");
  EXPECT_EQ(media_type_of("hello", "text/html,x"), "text/plain");
}

}  // namespace
}  // namespace afterimage
