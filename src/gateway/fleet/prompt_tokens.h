// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "gateway/prompts/content_chain.h"

namespace afterimage {

/// Media in a prompt of tokens: its placeholder tokens, and the engine's own name of its content.
struct TokenizedMedia {
  std::size_t offset = 0;
  std::size_t length = 0;
  std::string identifier;
};

/// A chat as its model server makes tokens of it: template, tokenizer and media placeholders.
struct PromptTokens {
  std::vector<std::uint32_t> tokens;
  std::vector<TokenizedMedia> media;  // by offset
  std::string adapter;                // LoRA; empty: none
  std::string cache_salt;
};

/// A block of an engine's prefix cache together with all blocks before it, as one number that the
/// gateway computes of events and of prompts alike. 0: unknown. Not of cryptographic strength: equal
/// numbers decide where a request goes, never what is answered.
using BlockContent = std::uint64_t;

/// Before the first block.
inline constexpr BlockContent kNoBlocks = 0x6166'7465'7269'6D67ULL;

/// The block that follows `before` with these tokens. `extra` names in order what else an engine's
/// blocks depend on: the adapter, media in the block, and in the first block the cache salt.
[[nodiscard]] BlockContent next_block(BlockContent before, std::span<const std::uint32_t> tokens,
                                      std::span<const std::string_view> extra);

/// The whole blocks of a prompt.
/// Cost     Linear in the tokens.
[[nodiscard]] std::vector<BlockContent> block_contents(const PromptTokens& prompt,
                                                       std::uint32_t block_tokens);

/// Where one link of a chain ends in a prompt of tokens.
struct LinkEnd {
  ChainKey key;
  float tokens = 0;  // of this link, about
  BlockContent content =
      0;  // of the last whole block that ends within the link, or the first after it
};

/// Ends of the links of `chain` from its beginning, up to the first that reaches beyond the prompt's
/// whole blocks. Media are exact. Text between media is shared out by its bytes, so that the end of a
/// text is known to a few tokens. Empty: chain and prompt differ in their media.
[[nodiscard]] std::vector<LinkEnd> link_ends(const ContentChain& chain, const PromptTokens& prompt,
                                             std::uint32_t block_tokens);

inline constexpr std::size_t kMostPromptTokens = 1'048'576;

/// Reads the response of vLLM's POST /v1/chat/completions/render or POST /tokenize.
///
/// Errors   kCorruption: not such a response: no tokens, more than kMostPromptTokens, or media that
///          overlap or lie outside.
[[nodiscard]] Result<PromptTokens> read_prompt_tokens(std::string_view response);

}  // namespace afterimage
