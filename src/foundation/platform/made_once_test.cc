// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/platform/made_once.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace afterimage {
namespace {

TEST(MadeOnce, IsMadeByTheFirstWhoAsks) {
  const MadeOnce<std::string> text;
  const std::string& first = text.get([] { return "one"; });
  EXPECT_EQ(first, "one");
  EXPECT_EQ(&text.get([] { return "two"; }), &first);
}

TEST(MadeOnce, IsMadeByTheNextIfTheFirstFailed) {
  const MadeOnce<int> number;
  EXPECT_THROW(number.get([]() -> int { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(number.get([] { return 2; }), 2);
}

TEST(MadeOnce, ManyWhoAskAtATimeGetTheSame) {
  const MadeOnce<std::vector<int>> numbers;
  std::atomic<int> made = 0;
  std::atomic<int> right = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto& got = numbers.get([&] {
        ++made;
        return std::vector<int>(1000, 7);
      });
      if (got.size() == 1000 && got.back() == 7) ++right;
    });
  }
  threads.clear();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(right, 8);
}

}  // namespace
}  // namespace afterimage
