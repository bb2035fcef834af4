// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/word_prints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace afterimage {
namespace {

const PrintKey kKey(Secret{std::byte{5}});

std::vector<WordPrint> words_of(std::string_view text, const PrintKey& key = kKey) {
  std::vector<WordPrint> words;
  append_words(words, text, key);
  return words;
}

/// Words of letters before one space are read in another way than others, and not at the end of a text.
TEST(WordPrints, AWordHasOnePrintWhereverItStands) {
  const std::vector<std::string> kWords{"a",
                                        "at",
                                        "Hello",
                                        "sevenly",
                                        "eightlet",
                                        "ninelette",
                                        "fifteenletters1",
                                        "fifteenletterss",
                                        "sixteenletterss",
                                        "seventeenlettersx",
                                        "June",
                                        "AM",
                                        "monday",
                                        "Mondays",
                                        "x1",
                                        "2026-11-29",
                                        "14:05",
                                        "über",
                                        "日",
                                        "it's",
                                        "a-b",
                                        "UPPER",
                                        "zZ",
                                        "@at",
                                        "[x]",
                                        "k\x7F",
                                        "{",
                                        "`"};
  const std::vector<std::string> kGaps{" ", " ", " ", " ", "  ", ", ", ".\n", "\t", " (", "\n\n"};
  std::mt19937 chance(7);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    while (text.size() < 200) {
      text += kWords[chance() % kWords.size()];
      text += kGaps[chance() % kGaps.size()];
    }
    // Each word alone is too short to be read together with what follows.
    const std::vector<WordPrint> together = words_of(text);
    std::vector<WordPrint> alone;
    std::string_view rest = text;
    for (const WordPrint& word : together) {
      append_words(alone, rest.substr(0, word.length), kKey);
      rest.remove_prefix(word.length);
    }
    ASSERT_TRUE(rest.empty()) << text;
    ASSERT_EQ(alone, together) << text;
  }
}

TEST(WordPrints, NamesOfTheCalendarAndTheClockAreSeenInEveryPlace) {
  for (const char* text : {"It is Sunday today and it will rain all day long",
                           "it is SUNDAY today and it will rain all day long"}) {
    EXPECT_EQ(words_of(text)[2].shape, WordShape::kCalendar) << text;
    EXPECT_EQ(words_of(text)[1].shape, WordShape::kText) << text;
  }
  EXPECT_EQ(words_of("at five pm and not at six or at seven, please")[2].shape, WordShape::kClock);
  EXPECT_EQ(words_of("at five pmx and not at six or at seven, please")[2].shape, WordShape::kText);
}

TEST(WordPrints, AnotherSecretMakesOtherPrints) {
  const PrintKey other(Secret{std::byte{6}});
  const std::string text = "one two three four five six seven eight nine ten";
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_NE(words_of(text)[i].digest, words_of(text, other)[i].digest);
  }
}

TEST(WordPrints, ShortWordsOfEverySizeDiffer) {
  std::vector<std::uint64_t> prints;
  for (std::size_t size = 0; size <= 20; ++size) {
    prints.push_back(kKey.print_word(std::string(size, '\0')));
    prints.push_back(kKey.print_word(std::string(size, 'a') + "b"));
  }
  std::ranges::sort(prints);
  EXPECT_EQ(std::ranges::adjacent_find(prints), prints.end());
}

/// Only some bits of a print are kept: a word that differs a little has to differ in any of them.
TEST(WordPrints, OneLetterChangesEachBitOfAPrintInHalfOfTheWords) {
  std::array<int, 64> changed{};
  int words = 0;
  for (std::size_t size = 1; size <= kShortWord; ++size) {
    for (std::size_t place = 0; place < size; ++place) {
      for (char letter = 'b'; letter <= 'z'; ++letter, ++words) {
        std::string word(size, 'a');
        const std::uint64_t before = kKey.print_word(word);
        word[place] = letter;
        const std::uint64_t flipped = before ^ kKey.print_word(word);
        for (std::size_t bit = 0; bit < 64; ++bit) changed[bit] += (flipped >> bit) & 1U;
      }
    }
  }
  for (std::size_t bit = 0; bit < 64; ++bit) {
    EXPECT_NEAR(static_cast<double>(changed[bit]) / words, 0.5, 0.035) << "bit " << bit;
  }
}

}  // namespace
}  // namespace afterimage
