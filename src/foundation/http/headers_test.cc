// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/headers.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

TEST(HttpHeaders, NamesAreFoundInAnyCase) {
  const HttpHeaders headers{{"Content-Type", "a"}, {"X", "1"}, {"content-type", "b"}};
  EXPECT_EQ(headers.find("CONTENT-TYPE"), "a");
  EXPECT_EQ(headers.find("Content-Typ"), std::nullopt);
  EXPECT_EQ(headers.joined("content-Type"), "a, b");
  EXPECT_EQ(headers.joined("Y"), std::nullopt);
}

TEST(HttpHeaders, SetReplacesAllValues) {
  HttpHeaders headers{{"a", "1"}, {"b", "2"}, {"A", "3"}};
  headers.set("A", "4");
  EXPECT_EQ(headers, (HttpHeaders{{"b", "2"}, {"A", "4"}}));
  headers.remove("B");
  EXPECT_EQ(headers.size(), 1U);
}

TEST(HttpHeaders, ACopyWithRoomIsEqual) {
  HttpHeaders headers{{"a", "1"}, {"b", "2"}, {"A", "3"}};
  EXPECT_EQ(headers.copy_with_room(8), headers);
  headers.remove_if([](std::string_view name) { return name == "A" || name == "b"; });
  EXPECT_EQ(headers, (HttpHeaders{{"a", "1"}}));
}

TEST(HttpHeaders, OnlyLettersAreCaseInsensitive) { EXPECT_FALSE(same_header("a[", "a{")); }

}  // namespace
}  // namespace afterimage
