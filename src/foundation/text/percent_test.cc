// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/text/percent.h"

#include <gtest/gtest.h>

namespace afterimage {
namespace {

TEST(Percent, EscapesAreBytes) {
  const struct {
    std::string_view text;
    std::optional<std::string> plain;
  } kCases[] = {
      {"", ""},
      {"plain+text", "plain+text"},
      {"a%20b%2Fc%2fd", "a b/c/d"},
      {"%C3%A9", "\xC3\xA9"},
      {"%2541", "%41"},
      {"%00", std::string(1, '\0')},
      {"%", std::nullopt},
      {"%4", std::nullopt},
      {"%4g", std::nullopt},
      {"%g4", std::nullopt},
      {"%-1", std::nullopt},
      {"%0x41", std::nullopt},
      {"% 1", std::nullopt},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(percent_decoded(c.text), c.plain) << c.text;
  }
}

}  // namespace
}  // namespace afterimage
