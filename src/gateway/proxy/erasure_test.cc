// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/erasure.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

/// What another gateway erases, as text.
std::string heard(const EraseTarget& target) {
  const auto again = announced(announcement(target));
  if (!again.has_value()) return "nothing";
  return again->everything ? "everything" : answer_tag(*again);
}

TEST(Erasure, OtherGatewaysHearWhatIsErased) {
  const std::string digest(64, 'a');
  EXPECT_EQ(heard({.media = ContentDigest::from_hex(digest).value()}), "media:" + digest);
  EXPECT_EQ(heard({.tenant = "acme: everything"}), "tenant:acme: everything");
  EXPECT_EQ(heard({.model = "media:" + digest}), "model:media:" + digest);
  EXPECT_EQ(heard({.everything = true}), "everything");
}

TEST(Erasure, OtherTagsAnnounceNothing) {
  for (const std::string tag : {"", "erase/", "erase/all", "erase/media:xyz", "media:1",
                                "everything", "erase/owner:acme", "ERASE/everything"}) {
    EXPECT_FALSE(announced(tag).has_value()) << tag;
  }
}

}  // namespace
}  // namespace afterimage
