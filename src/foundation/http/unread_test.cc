// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/unread.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace afterimage {
namespace {

using Wait = UnreadResponses::Wait;
constexpr Bytes kLimit(100);

/// Responses in the order in which they began to wait, and whether they were cut off.
struct Responses {
  std::size_t add() {
    const std::size_t index = cut.size();
    cut.push_back(0);
    all.push_back(std::make_unique<Wait>(unread, [this, index] { ++cut[index]; }));
    return index;
  }
  UnreadResponses unread;
  std::vector<int> cut;
  std::vector<std::unique_ptr<Wait>> all;
};

TEST(UnreadResponses, BeyondTheLimitTheLongestWaitingAreCutOff) {
  Responses responses;
  for (int i = 0; i < 4; ++i) responses.all[responses.add()]->waits(25, {}, kLimit);
  EXPECT_EQ(responses.unread.bytes(), kLimit);
  EXPECT_EQ(responses.cut, std::vector<int>({0, 0, 0, 0}));
  responses.all[responses.add()]->waits(26, {}, kLimit);
  EXPECT_EQ(responses.cut, std::vector<int>({1, 1, 0, 0, 0}));
  EXPECT_EQ(responses.unread.bytes(), Bytes(76));
  responses.all[0]->waits(90, {}, kLimit);  // it ends: it has nothing to say any more
  EXPECT_EQ(responses.unread.bytes(), Bytes(76));
  EXPECT_EQ(responses.unread.cut(), 2U);
  responses.all.clear();
  EXPECT_EQ(responses.unread.bytes(), Bytes(0));
}

TEST(UnreadResponses, OneThatIsReadAgainKeepsItsAgeAndHoldsNothing) {
  Responses responses;
  responses.all[responses.add()]->waits(60, {}, kLimit);
  responses.all[0]->goes_on();
  responses.all[responses.add()]->waits(60, {}, kLimit);
  EXPECT_EQ(responses.cut, std::vector<int>({0, 0}));
  responses.all[0]->waits(60, {}, kLimit);  // reads now and then, and waits the longest
  EXPECT_EQ(responses.cut, std::vector<int>({1, 0}));
}

TEST(UnreadResponses, WhatSeveralShareCountsOnce) {
  Responses responses;
  const int body = 0;
  for (int i = 0; i < 10; ++i) {
    responses.all[responses.add()]->waits(1, {.what = &body, .bytes = 80}, kLimit);
  }
  EXPECT_EQ(responses.unread.bytes(), Bytes(90));
  responses.all[responses.add()]->waits(1, {.what = &body, .bytes = 85}, kLimit);  // it grew
  EXPECT_EQ(responses.unread.bytes(), Bytes(96));
  for (int i = 0; i < 10; ++i) responses.all.pop_back();
  EXPECT_EQ(responses.unread.bytes(), Bytes(86));
  responses.all.clear();
  EXPECT_EQ(responses.unread.bytes(), Bytes(0));
}

TEST(UnreadResponses, TheLastOneIsLeftHoweverLarge) {
  Responses responses;
  responses.all[responses.add()]->waits(1000, {}, kLimit);
  EXPECT_EQ(responses.cut, std::vector<int>({0}));
  responses.all[responses.add()]->waits(1, {}, kLimit);
  EXPECT_EQ(responses.cut, std::vector<int>({1, 0}));
}

}  // namespace
}  // namespace afterimage
