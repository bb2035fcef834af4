// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/engine_api/stop_texts.h"

#include <gtest/gtest.h>

#include "testing/seeds.h"

namespace afterimage {
namespace {

TEST(StopTexts, HoldBackWhatMayBeginOne) {
  StopTexts stops({"END", "stop"});
  EXPECT_EQ(stops.add("an E"), "an ");
  EXPECT_EQ(stops.add("N"), "");
  EXPECT_EQ(stops.add("T st"), "ENT ");
  EXPECT_FALSE(stops.found());
  EXPECT_EQ(stops.finish(), "st");
}

TEST(StopTexts, EndBeforeTheFirst) {
  const struct {
    const char* name;
    std::vector<std::string> stops;
    std::vector<std::string> pieces;
    const char* text;
    bool found;
  } kCases[] = {
      {"none", {}, {"a", "b"}, "ab", false},
      {"an empty one is none", {""}, {"a"}, "a", false},
      {"in one piece", {"b"}, {"abc"}, "a", true},
      {"across pieces", {"bcd"}, {"ab", "c", "de"}, "a", true},
      {"the first of two", {"d", "b"}, {"abcd"}, "a", true},
      {"one inside another", {"bcd", "c"}, {"ab", "c", "d"}, "ab", true},
      {"a beginning that repeats", {"aab"}, {"a", "a", "a", "b"}, "a", true},
      {"at the start", {"x"}, {"x"}, "", true},
      {"nothing after it", {"x"}, {"ax", "b"}, "a", true},
  };
  for (const auto& c : kCases) {
    StopTexts stops(c.stops);
    std::string text;
    for (const std::string& piece : c.pieces) text += stops.add(piece);
    text += stops.finish();
    EXPECT_EQ(text, c.text) << c.name;
    EXPECT_EQ(stops.found(), c.found) << c.name;
  }
}

// StopTexts releases the text before the first stop text, whatever pieces the text arrives in.
TEST(StopTextsProperty, AgreesWithASearchInTheWholeText) {
  testing::for_each_seed(300, [](Rng& rng) {
    std::string text;
    for (std::uint64_t i = rng.below(40); i > 0; --i) text += "ab"[rng.below(2)];
    std::vector<std::string> stop_texts;
    for (std::uint64_t i = rng.below(3) + 1; i > 0; --i) {
      std::string& stop = stop_texts.emplace_back("a");
      for (std::uint64_t n = rng.below(5); n > 0; --n) stop += "ab"[rng.below(2)];
    }
    // Pieces of one token may end a stop text and begin a longer one: the one that ends first wins,
    // as it would with the text in one piece, only where pieces are single characters.
    std::size_t first_end = std::string::npos;
    std::size_t begin = text.size();
    for (const std::string& stop : stop_texts) {
      const std::size_t at = text.find(stop);
      if (at == std::string::npos) continue;
      if (at + stop.size() < first_end || (at + stop.size() == first_end && at < begin)) {
        first_end = at + stop.size();
        begin = at;
      }
    }
    StopTexts stops(stop_texts);
    std::string released;
    for (const char c : text) released += stops.add(std::string_view(&c, 1));
    released += stops.finish();
    EXPECT_EQ(released, text.substr(0, begin)) << text;
  });
}

}  // namespace
}  // namespace afterimage
