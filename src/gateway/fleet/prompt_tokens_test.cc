// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/prompt_tokens.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "testing/seeds.h"

namespace afterimage {
namespace {

ChainLink link(std::uint8_t key, std::uint32_t text_bytes, bool is_media = false) {
  ChainLink made{.text_bytes = text_bytes, .is_media = is_media};
  made.key.bytes[0] = static_cast<std::byte>(key);
  return made;
}

PromptTokens prompt_of(std::size_t tokens) {
  PromptTokens prompt;
  prompt.tokens.resize(tokens);
  std::iota(prompt.tokens.begin(), prompt.tokens.end(), 7U);
  return prompt;
}

std::vector<std::size_t> blocks_of(const ContentChain& chain, const PromptTokens& prompt,
                                   std::uint32_t block_tokens) {
  const auto contents = block_contents(prompt, block_tokens);
  std::vector<std::size_t> blocks;
  for (const LinkEnd& end : link_ends(chain, prompt, block_tokens)) {
    const auto it = std::ranges::find(contents, end.content);
    blocks.push_back(static_cast<std::size_t>(it - contents.begin()) + 1);
  }
  return blocks;
}

TEST(BlockContents, AreThoseOfItsTokensAndOfEverythingBefore) {
  const PromptTokens prompt = prompt_of(50);
  const auto contents = block_contents(prompt, 16);
  ASSERT_EQ(contents.size(), 3U) << "the last two tokens are no whole block";
  for (std::size_t changed = 0; changed < 48; ++changed) {
    PromptTokens other = prompt;
    other.tokens[changed] ^= 1U;
    const auto others = block_contents(other, 16);
    for (std::size_t block = 0; block < 3; ++block) {
      EXPECT_EQ(others[block] == contents[block], block < changed / 16) << changed << ' ' << block;
    }
  }
  EXPECT_TRUE(block_contents(prompt, 0).empty());
  EXPECT_TRUE(block_contents(prompt, 51).empty());
}

TEST(BlockContents, DifferByMediaAdapterAndSalt) {
  PromptTokens prompt = prompt_of(64);
  prompt.media = {{.offset = 20, .length = 30, .identifier = "picture"}};
  const auto contents = block_contents(prompt, 16);
  PromptTokens other = prompt;
  other.media[0].identifier = "another";
  EXPECT_EQ(block_contents(other, 16)[0], contents[0]) << "the picture begins later";
  for (const std::size_t block : {1U, 2U, 3U}) {
    EXPECT_NE(block_contents(other, 16)[block], contents[block]) << block;
  }
  other = prompt;
  other.adapter = "lora";
  EXPECT_NE(block_contents(other, 16)[0], contents[0]);
  other = prompt;
  other.cache_salt = "salt";
  EXPECT_NE(block_contents(other, 16)[0], contents[0]);
}

TEST(BlockContents, AreWhatEventsOfTheSameBlocksGive) {
  PromptTokens prompt = prompt_of(48);
  prompt.adapter = "lora";
  prompt.cache_salt = "salt";
  prompt.media = {{.offset = 3, .length = 4, .identifier = "one"},
                  {.offset = 10, .length = 20, .identifier = "two"}};
  const auto contents = block_contents(prompt, 16);
  const std::vector<std::vector<std::string_view>> extra{
      {"lora", "one", "two", "salt"}, {"lora", "two"}, {"lora"}};
  BlockContent before = kNoBlocks;
  for (std::size_t i = 0; i < 3; ++i) {
    before = next_block(before, std::span(prompt.tokens).subspan(i * 16, 16), extra[i]);
    EXPECT_EQ(before, contents[i]) << i;
  }
}

TEST(LinkEnds, TextIsSharedOutByItsBytes) {
  const ContentChain chain{{link(1, 256), link(2, 256), link(3, 256)}};
  EXPECT_EQ(blocks_of(chain, prompt_of(192), 16), (std::vector<std::size_t>{4, 8, 12}));
  // 190 tokens are 11 whole blocks: the third link ends beyond them.
  EXPECT_EQ(blocks_of(chain, prompt_of(190), 16), (std::vector<std::size_t>{3, 7, 11}));
  EXPECT_EQ(link_ends(chain, prompt_of(192), 16)[1].tokens, 64);
}

TEST(LinkEnds, ALinkThatIsSmallerThanABlockEndsInOneThatContainsABitOfIt) {
  const ContentChain chain{{link(1, 10), link(2, 10), link(3, 180)}};
  // 2 + 2 + 36 tokens: the first two are known with the first block, and not before.
  EXPECT_EQ(blocks_of(chain, prompt_of(40), 16), (std::vector<std::size_t>{1, 1, 2}));
  EXPECT_TRUE(link_ends(chain, prompt_of(15), 16).empty());
  // The last one begins in a block that is not whole.
  const ContentChain last{{link(1, 160), link(2, 10)}};
  EXPECT_EQ(blocks_of(last, prompt_of(17), 16), (std::vector<std::size_t>{1}));
}

TEST(LinkEnds, MediaAreExact) {
  const ContentChain chain{{link(1, 100), link(2, 0, true), link(3, 300), link(4, 0, true)}};
  PromptTokens prompt = prompt_of(200);
  prompt.media = {{.offset = 20, .length = 60, .identifier = "a"},
                  {.offset = 150, .length = 10, .identifier = "b"}};
  // Ends at 20, 80, 150 and 160 tokens.
  EXPECT_EQ(blocks_of(chain, prompt, 16), (std::vector<std::size_t>{1, 5, 9, 10}));
  EXPECT_EQ(blocks_of(chain, prompt, 10), (std::vector<std::size_t>{2, 8, 15, 16}));
}

TEST(LinkEnds, MediaOfAnotherNumberMatchNothing) {
  const ContentChain chain{{link(1, 100), link(2, 0, true)}};
  EXPECT_TRUE(link_ends(chain, prompt_of(200), 16).empty());
  PromptTokens prompt = prompt_of(200);
  prompt.media.resize(2, {.offset = 1, .length = 1, .identifier = "a"});
  EXPECT_TRUE(link_ends(chain, prompt, 16).empty());
}

TEST(ReadPromptTokens, ReadsBothOfVllmsResponses) {
  const auto rendered = read_prompt_tokens(
      R"({"request_id":"r","token_ids":[1,2,3,4,5,6],"features":{"mm_hashes":{"video":["v"],"image":["i"]},
      "mm_placeholders":{"video":[{"offset":4,"length":2}],"image":[{"offset":1,"length":2}]},"kwargs_data":null},
      "sampling_params":{},"cache_salt":"s"})");
  ASSERT_TRUE(rendered.has_value());
  EXPECT_EQ(rendered->tokens, (std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6}));
  ASSERT_EQ(rendered->media.size(), 2U);
  EXPECT_EQ(rendered->media[0].identifier, "i");
  EXPECT_EQ(rendered->media[1].offset, 4U);
  EXPECT_EQ(rendered->cache_salt, "s");
  const auto tokenized = read_prompt_tokens(R"({"tokens":[7],"token_strs":null,"count":1})");
  ASSERT_TRUE(tokenized.has_value());
  EXPECT_EQ(tokenized->tokens, (std::vector<std::uint32_t>{7}));
}

TEST(ReadPromptTokens, RefusesWhatIsNone) {
  for (
      const char* text :
      {"", "null", "[]", "{}", R"({"tokens":[]})", R"({"tokens":7})", R"({"tokens":[-1]})",
       R"({"tokens":[1.5]})", R"({"tokens":["1"]})", R"({"token_ids":null})",
       R"({"token_ids":[1],"features":{}})",
       R"({"token_ids":[1],"features":{"mm_hashes":{"image":["a"]},"mm_placeholders":{}}})",
       R"({"token_ids":[1],"features":{"mm_hashes":{"image":["a"]},"mm_placeholders":{"image":[]}}})",
       R"({"token_ids":[1],"features":{"mm_hashes":{"image":["a"]},"mm_placeholders":{"image":[{"offset":0,"length":0}]}}})",
       R"({"token_ids":[1],"features":{"mm_hashes":{"image":["a"]},"mm_placeholders":{"image":[{"offset":1,"length":1}]}}})",
       R"({"token_ids":[1],"features":{"mm_hashes":{"image":["a"]},"mm_placeholders":{"image":[{"offset":-1,"length":1}]}}})",
       R"({"token_ids":[1],"features":{"mm_hashes":{"image":["a"]},"mm_placeholders":{"image":[{"offset":0,"length":18446744073709551615}]}}})",
       R"({"token_ids":[1,2],"features":{"mm_hashes":{"image":["a","b"]},"mm_placeholders":{"image":[{"offset":0,"length":2},{"offset":1,"length":1}]}}})"}) {
    EXPECT_FALSE(read_prompt_tokens(text).has_value()) << text;
  }
  const std::string deep(100'000, '[');
  EXPECT_FALSE(read_prompt_tokens(deep).has_value());
  std::string many = R"({"tokens":[1)";
  for (std::size_t i = 0; i < kMostPromptTokens; ++i) many += ",1";
  EXPECT_FALSE(read_prompt_tokens(many + "]}").has_value());
}

TEST(ReadPromptTokensProperty, AnyChangeIsAPromptOrAnError) {
  const std::string good =
      R"({"token_ids":[1,2,3,4],"features":{"mm_hashes":{"image":["a"]},"mm_placeholders":{"image":[{"offset":1,"length":2}]}},"cache_salt":null})";
  testing::for_each_seed(300, [&](Rng& rng) {
    std::string text = good;
    for (std::uint64_t i = 1 + rng.below(4); i > 0; --i) {
      text[rng.below(text.size())] = static_cast<char>(rng.below(256));
    }
    const auto prompt = read_prompt_tokens(text);
    if (!prompt.has_value()) return;
    const ContentChain chain{{link(1, 10), link(2, 0, true), link(3, 10)}};
    ASSERT_LE(link_ends(chain, *prompt, 1).size(), 3U);
  });
}

}  // namespace
}  // namespace afterimage
