// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/erasure.h"

#include <gtest/gtest.h>

#include "foundation/platform/testing/manual_wall_clock.h"

namespace afterimage {
namespace {

/// What another gateway erases, as text.
std::string heard(const EraseTarget& target) {
  const auto again = announced(announcement(target));
  if (!again.has_value()) return "nothing";
  if (again->made_before.has_value()) {
    return "before " + std::to_string(again->made_before->time_since_epoch().count());
  }
  const std::string by = again->tag.has_value() ? "a tag: " : "";
  return again->everything ? "everything"
                           : by + answer_filter(*again, testing::ManualWallClock()).tag;
}

TEST(Erasure, OtherGatewaysHearWhatIsErased) {
  const std::string digest(64, 'a');
  EXPECT_EQ(heard({.media = ContentDigest::from_hex(digest).value()}), "media:" + digest);
  EXPECT_EQ(heard({.tenant = "acme: everything"}), "tenant:acme: everything");
  EXPECT_EQ(heard({.model = "media:" + digest}), "model:media:" + digest);
  EXPECT_EQ(heard({.tag = "tenant:acme"}), "a tag: tenant:acme");
  EXPECT_EQ(heard({.made_before = std::chrono::sys_days(std::chrono::days(20'000))}),
            "before 20000");
  EXPECT_EQ(heard({.everything = true}), "everything");
}

TEST(Erasure, SelectsAnswersByTheDayTheyWereMade) {
  const testing::ManualWallClock wall(WallTime(std::chrono::days(20'000) + std::chrono::hours(6)));
  EXPECT_EQ(first_day_kept(std::chrono::days(30), wall).time_since_epoch().count(), 19'971);
  const AnswerFilter filter =
      answer_filter({.made_before = first_day_kept(std::chrono::days(1), wall)}, wall);
  EXPECT_EQ(filter.older_than, std::chrono::hours(6)) << "since midnight";
}

TEST(Erasure, OtherTagsAnnounceNothing) {
  for (const std::string tag :
       {"", "erase/", "erase/all", "erase/media:xyz", "media:1", "everything", "erase/owner:acme",
        "ERASE/everything", "erase/before:", "erase/before:1x"}) {
    EXPECT_FALSE(announced(tag).has_value()) << tag;
  }
}

}  // namespace
}  // namespace afterimage
