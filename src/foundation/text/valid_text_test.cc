// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/text/valid_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "foundation/platform/random.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using std::string_literals::operator""s;

TEST(ValidText, KeepsCharactersAndReplacesOtherBytes) {
  const struct {
    const char* name;
    std::string text;
    std::string expected;
  } kCases[] = {
      {"nothing", "", ""},
      {"a zero byte is a character", "a\0b"s, "a\0b"s},
      {"of every length", "z\u00e9\u20ac\U0001F642", "z\u00e9\u20ac\U0001F642"},
      {"the last there is", "\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
      {"beyond it", "\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"a tail without a head", "a\x80z", "a\uFFFDz"},
      {"a head without a tail", "a\xC3", "a\uFFFD"},
      {"a head, then a letter", "\xC3z", "\uFFFDz"},
      {"longer than need be", "\xC0\xAF", "\uFFFD\uFFFD"},
      {"half a pair", "\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
  };
  for (const auto& c : kCases) EXPECT_EQ(valid_text(c.text, 100), c.expected) << c.name;
}

TEST(ValidText, CutsBetweenCharacters) {
  EXPECT_EQ(valid_text("abc", 3), "abc");
  EXPECT_EQ(valid_text("abcd", 3), "abc…");
  EXPECT_EQ(valid_text("ab\u20ac", 4), "ab…");
  EXPECT_EQ(valid_text("ab\u20ac", 5), "ab\u20ac");
  EXPECT_EQ(valid_text("a", 0), "…");
}

TEST(ValidTextProperty, OutputIsValidAndIdempotent) {
  testing::for_each_seed(300, [](Rng& rng) {
    constexpr std::string_view kBytes = "az\x80\xBF\xC2\xC3\xE0\xA0\xED\xEF\xF0\x90\xF4\xFF\n";
    std::string text;
    for (std::uint64_t i = rng.below(20); i > 0; --i) text += kBytes[rng.below(kBytes.size())];
    const std::string valid = valid_text(text, 1000);
    EXPECT_NO_THROW((void)nlohmann::json(valid).dump());  // strict: throws at what is not UTF-8
    EXPECT_EQ(valid_text(valid, 1000), valid);
  });
}

TEST(TextPieces, AreTheWholeTextWhereverItIsCut) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 \xFF\xC0\xE2\x28 \xF0\x9F";
  const std::string whole = valid_text(text, 1'000);
  for (std::size_t size = 1; size <= text.size(); ++size) {
    TextPieces pieces;
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += size) {
      const std::string piece = pieces.add(std::string_view(text).substr(at, size));
      EXPECT_EQ(piece, valid_text(piece, 1'000)) << "half a character";
      out += piece;
    }
    EXPECT_EQ(out + pieces.finish(), whole) << size;
  }
}

TEST(TextPieces, ReturnACharacterAsSoonAsItIsComplete) {
  TextPieces pieces;
  EXPECT_EQ(pieces.add("x\xE2\x82"), "x");
  EXPECT_EQ(pieces.add("\xAC"), "\xE2\x82\xAC");
  EXPECT_EQ(pieces.finish(), "");
}

}  // namespace
}  // namespace afterimage
