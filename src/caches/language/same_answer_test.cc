// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/language/same_answer.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

TEST(SameAnswer, Cases) {
  using enum SameAnswer;
  const struct {
    const char* a;
    const char* b;
    SameAnswer expected;
  } kCases[] = {
      {"", "", kSame},
      {"", "red", kUnclear},
      {"...", "!", kUnclear},
      {"red", "red", kSame},
      {"Red.", " red", kSame},
      {"red", "blue", kUnclear},
      {"a red car", "a car, red", kUnclear},
      {"Yes", "yes, it is.", kSame},
      {"Yes.", "No.", kDifferent},
      {"Yes, 3.", "Yes, 4.", kDifferent},
      {"no", "know", kUnclear},
      {"True", "yes", kSame},
      {"3", "three", kSame},
      {"3", "3.0", kSame},
      {"3", "4", kDifferent},
      {"There are 3 cats.", "There are 4 cats.", kDifferent},
      {"There are 3 cats.", "3", kUnclear},
      {"nan", "inf", kUnclear},
      {"猫", "猫", kSame},
      {"猫", "犬", kUnclear},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(same_answer(c.a, c.b), c.expected) << c.a << " | " << c.b;
    EXPECT_EQ(same_answer(c.b, c.a), c.expected) << c.b << " | " << c.a;
  }
}

}  // namespace
}  // namespace afterimage
