// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/seen_requests.h"

#include <gtest/gtest.h>

#include <string>

namespace afterimage {
namespace {

bool add(SeenRequests& seen, const std::string& request) {
  return seen.add(std::as_bytes(std::span(request)));
}

TEST(SeenRequests, KnowsWhatItSaw) {
  SeenRequests seen(Secret{});
  EXPECT_FALSE(add(seen, ""));
  EXPECT_FALSE(add(seen, "a"));
  EXPECT_TRUE(add(seen, "a"));
  EXPECT_TRUE(add(seen, ""));
  EXPECT_FALSE(add(seen, "b"));
}

TEST(SeenRequests, ForgetsTheOldestAndKeepsWhatComesAgain) {
  SeenRequests seen(Secret{});
  constexpr int kMany = 10 * SeenRequests::kSets * SeenRequests::kWays;
  add(seen, "once");
  add(seen, "often");
  for (int i = 0; i < kMany; ++i) {
    add(seen, std::to_string(i));
    if (i % 1000 == 0) EXPECT_TRUE(add(seen, "often")) << i;
  }
  EXPECT_FALSE(add(seen, "once"));
  int known = 0;
  constexpr int kLast = SeenRequests::kSets;
  for (int i = kMany - kLast; i < kMany; ++i) known += add(seen, std::to_string(i)) ? 1 : 0;
  EXPECT_GT(known, kLast * 97 / 100);
}

}  // namespace
}  // namespace afterimage
