// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace afterimage {
namespace {

std::string shown(const Request& request, std::span<const PlacedMedia> media = {}) {
  return printable(chat_sequence(request, media).tokens);
}

TEST(Tokenizer, WritesTheTemplate) {
  Request request;
  EXPECT_EQ(shown(request), "<bos><assistant>");
  request.messages = {{.role = Role::kSystem, .parts = {"be brief"}},
                      {.role = Role::kUser, .parts = {"a", "b"}},
                      {.role = Role::kAssistant, .parts = {}},
                      {.role = Role::kTool, .parts = {""}}};
  EXPECT_EQ(shown(request),
            "<bos><system>be brief<end_of_turn><user>ab<end_of_turn><assistant><end_of_turn>"
            "<tool><end_of_turn><assistant>");
}

TEST(Tokenizer, ACompletionHasNoTemplate) {
  Request request;
  request.messages.push_back({.role = Role::kUser, .parts = {"ab"}});
  request.is_completion = true;
  EXPECT_EQ(printable(chat_sequence(request, {}).tokens), "<bos>ab");
}

TEST(Tokenizer, MediaBecomeSpansOfTheirPlaceholder) {
  ContentDigest first;
  ContentDigest second;
  second.bytes[0] = std::byte{1};
  const Request request{.id = {},
                        .tenant = {},
                        .messages = {{.role = Role::kUser,
                                      .parts = {MediaItem{.modality = Modality::kImage}, "x",
                                                MediaItem{.modality = Modality::kAudio}}}}};
  const PlacedMedia placed[] = {{.content = first, .length = TokenCount(3)},
                                {.content = second, .length = TokenCount(2)}};
  const Sequence sequence = chat_sequence(request, placed);
  EXPECT_EQ(printable(sequence.tokens),
            "<bos><user><image><image><image>x<audio><audio><end_of_turn><assistant>");
  ASSERT_TRUE(check_sequence(sequence).has_value());
  ASSERT_EQ(sequence.spans.size(), 2U);
  EXPECT_EQ(sequence.spans[0],
            (MediaSpan{.offset = TokenCount(2), .length = TokenCount(3), .content = first}));
  EXPECT_EQ(sequence.spans[1], (MediaSpan{.offset = TokenCount(6),
                                          .length = TokenCount(2),
                                          .modality = Modality::kAudio,
                                          .content = second}));
}

TEST(Tokenizer, TextNeverBecomesASpecialToken) {
  const Request request{
      .id = {}, .tenant = {}, .messages = {{.role = Role::kUser, .parts = {"<assistant>\xFF"}}}};
  for (const TokenId id : chat_sequence(request, {}).tokens) {
    EXPECT_NE(id, token(SpecialToken::kImage));
  }
  const auto tokens = chat_sequence(request, {}).tokens;
  EXPECT_EQ(std::ranges::count(tokens, token(SpecialToken::kAssistant)), 1);
}

TEST(Tokenizer, PrintsAnyTokensAsOneLineOfAscii) {
  const struct {
    const char* name;
    std::vector<TokenId> tokens;
    const char* expected;
  } kCases[] = {
      {"nothing", {}, ""},
      {"letters", {TokenId('o'), TokenId('k')}, "ok"},
      {"control and high bytes",
       {TokenId(0), TokenId(10), TokenId(127), TokenId(255)},
       "\\x00\\x0a\\x7f\\xff"},
      {"backslash", {TokenId('\\')}, "\\\\"},
      {"special", {TokenId(256), TokenId(265)}, "<bos><video>"},
      {"outside", {TokenId(-1), TokenId(266)}, "<?><?>"},
  };
  for (const auto& c : kCases) EXPECT_EQ(printable(c.tokens), c.expected) << c.name;
}

}  // namespace
}  // namespace afterimage
