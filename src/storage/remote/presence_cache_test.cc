// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/presence_cache.h"

#include <gtest/gtest.h>

#include "testing/tier_entries.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::tier_key;

TEST(PresenceCache, RemembersKeysUntilTheyExpire) {
  PresenceCache keys(10);
  EXPECT_EQ(keys.present(tier_key(1), 0s), std::nullopt);
  keys.note(tier_key(1), true, 5s);
  keys.note(tier_key(2), false, 3s);
  EXPECT_EQ(keys.present(tier_key(1), 5s - 1ns), true);
  EXPECT_EQ(keys.present(tier_key(1), 5s), std::nullopt);
  EXPECT_EQ(keys.present(tier_key(2), 2s), false);
  EXPECT_EQ(keys.count_present(), 1U);
  keys.note(tier_key(1), false, 9s);
  EXPECT_EQ(keys.present(tier_key(1), 8s), false);
  keys.forget(tier_key(1));
  EXPECT_EQ(keys.present(tier_key(1), 8s), std::nullopt);
}

TEST(PresenceCache, DropsTheOldestAndStaysBounded) {
  PresenceCache keys(100);
  for (std::uint64_t n = 0; n < 1'000; ++n) {
    keys.note(tier_key(n), true, 1s);
    EXPECT_LE(keys.count_present(), 102U);
  }
  EXPECT_EQ(keys.present(tier_key(999), 0s), true);
  EXPECT_EQ(keys.present(tier_key(950), 0s), true);
  EXPECT_EQ(keys.present(tier_key(1), 0s), std::nullopt);
}

}  // namespace
}  // namespace afterimage
