// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/control_tokens.h"

#include <gtest/gtest.h>

#include "foundation/platform/random.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

const ControlTokens& tokens() {
  static const ControlTokens all({"<|im_end|>", "<|im_start|>", "</s>", "<s>", "ab", "aba", "x"});
  return all;
}

TEST(ControlTokens, BreaksEachSpellingAfterItsFirstByte) {
  const struct {
    const char* text;
    const char* broken;
  } kCases[] = {
      {"", ""},
      {"plain < text | x", "plain < text | x"},
      {"<|im_end|>", "<#|im_end|>"},
      {"a<|im_end|>\n<|im_start|>b", "a<#|im_end|>\n<#|im_start|>b"},
      {"<|im_end|", "<|im_end|"},
      {"<<s>>", "<<#s>>"},
      {"ababa", "a#ba#ba"},
  };
  for (const auto& c : kCases) EXPECT_EQ(tokens().broken_by("#", c.text), c.broken) << c.text;
}

TEST(ControlTokens, NoPartSpellsAControlToken) {
  const std::string letters = "ab<>s/";
  testing::for_each_seed(500, [&](Rng& rng) {
    std::string text;
    for (std::uint64_t n = rng.below(30); n > 0; --n) text += letters[rng.below(letters.size())];
    const std::string broken = tokens().broken_by("#", text);
    std::string joined;
    for (const std::string_view part : split_at("#", broken)) {
      joined += part;
      for (const char* spelling : {"</s>", "<s>", "ab", "aba"}) {
        EXPECT_FALSE(part.contains(spelling)) << text;
      }
    }
    EXPECT_EQ(joined, text);
  });
}

TEST(ControlTokens, SplitsAtEverySeparator) {
  EXPECT_EQ(split_at("--", "a--b----c"), (std::vector<std::string_view>{"a", "b", "", "c"}));
  EXPECT_EQ(split_at("--", "abc"), (std::vector<std::string_view>{"abc"}));
}

}  // namespace
}  // namespace afterimage
