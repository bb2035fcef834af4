// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/prompt_tokens.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace afterimage {
namespace {

using nlohmann::json;

std::uint64_t stirred(std::uint64_t value) {
  value ^= value >> 30U;
  value *= 0xBF58476D1CE4E5B9ULL;
  value ^= value >> 27U;
  value *= 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

std::uint64_t with_text(std::uint64_t state, std::string_view text) {
  state = stirred(state ^ (0x7465'7874ULL + text.size()));
  for (const char c : text) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return stirred(state);
}

/// What the block from `begin` to `end` depends on besides its tokens. `media`: the first that may
/// reach into it; moves on.
std::vector<std::string_view> extra_of(const PromptTokens& prompt, std::size_t begin,
                                       std::size_t end, std::size_t& media) {
  std::vector<std::string_view> extra;
  if (!prompt.adapter.empty()) extra.emplace_back(prompt.adapter);
  const auto& all = prompt.media;
  while (media < all.size() && all[media].offset + all[media].length <= begin) ++media;
  for (std::size_t i = media; i < all.size() && all[i].offset < end; ++i) {
    extra.emplace_back(all[i].identifier);
  }
  if (begin == 0 && !prompt.cache_salt.empty()) extra.emplace_back(prompt.cache_salt);
  return extra;
}

/// The token at which each link ends; empty: the media are not those of the prompt.
std::vector<double> ends_in_tokens(const ContentChain& chain, const PromptTokens& prompt) {
  const auto media = std::ranges::count_if(chain.links, &ChainLink::is_media);
  if (static_cast<std::size_t>(media) != prompt.media.size()) return {};
  std::vector<double> ends(chain.links.size());
  std::size_t next_media = 0;
  double begin = 0;  // of this text between two media
  for (std::size_t i = 0; i < chain.links.size();) {
    std::size_t last = i;
    double bytes = 0;
    for (; last < chain.links.size() && !chain.links[last].is_media; ++last) {
      bytes += chain.links[last].text_bytes;
    }
    const bool has_media = last < chain.links.size();
    const double end =
        static_cast<double>(has_media ? prompt.media[next_media].offset : prompt.tokens.size());
    double seen = 0;
    for (; i < last; ++i) {
      seen += chain.links[i].text_bytes;
      ends[i] = bytes > 0 ? begin + (end - begin) * seen / bytes : begin;
    }
    if (!has_media) break;
    begin = end + static_cast<double>(prompt.media[next_media++].length);
    ends[i++] = begin;
  }
  return ends;
}

bool read_media(const json& features, PromptTokens& prompt) {
  const json& hashes = features.at("mm_hashes");
  const json& places = features.at("mm_placeholders");
  for (const auto& [modality, names] : hashes.items()) {
    const json& where = places.at(modality);
    if (where.size() != names.size()) return false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      prompt.media.push_back({.offset = where.at(i).at("offset").get<std::size_t>(),
                              .length = where.at(i).at("length").get<std::size_t>(),
                              .identifier = names.at(i).get<std::string>()});
    }
  }
  std::ranges::sort(prompt.media, {}, &TokenizedMedia::offset);
  std::size_t free = 0;
  for (const TokenizedMedia& media : prompt.media) {
    if (media.offset < free || media.length == 0 || media.offset >= prompt.tokens.size() ||
        media.length > prompt.tokens.size() - media.offset) {
      return false;
    }
    free = media.offset + media.length;
  }
  return true;
}

}  // namespace

BlockContent next_block(BlockContent before, std::span<const std::uint32_t> tokens,
                        std::span<const std::string_view> extra) {
  std::uint64_t state = stirred(before + tokens.size());
  for (const std::uint32_t token : tokens) {
    state = (state ^ (token + 0x9E3779B9ULL)) * 0xD6E8FEB86659FD93ULL;
    state ^= state >> 32U;
  }
  for (const std::string_view one : extra) state = with_text(state, one);
  state = stirred(state);
  return state == 0 ? 1 : state;
}

std::vector<BlockContent> block_contents(const PromptTokens& prompt, std::uint32_t block_tokens) {
  std::vector<BlockContent> contents;
  if (block_tokens == 0) return contents;
  const std::span<const std::uint32_t> tokens(prompt.tokens);
  BlockContent before = kNoBlocks;
  std::size_t media = 0;
  for (std::size_t begin = 0; begin + block_tokens <= tokens.size(); begin += block_tokens) {
    before = next_block(before, tokens.subspan(begin, block_tokens),
                        extra_of(prompt, begin, begin + block_tokens, media));
    contents.push_back(before);
  }
  return contents;
}

std::vector<LinkEnd> link_ends(const ContentChain& chain, const PromptTokens& prompt,
                               std::uint32_t block_tokens) {
  const std::vector<BlockContent> contents = block_contents(prompt, block_tokens);
  std::vector<LinkEnd> ends;
  double begin = 0;
  const std::vector<double> tokens = ends_in_tokens(chain, prompt);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    // A block that begins before the link ends and ends after it began: a block before says nothing of
    // this link, and one that begins after may hold what follows in this prompt alone.
    const auto whole = static_cast<std::size_t>(tokens[i] / block_tokens);
    const auto least = static_cast<std::size_t>(begin / block_tokens) + 1;
    const std::size_t blocks = std::max(whole, least);
    if (blocks > contents.size()) break;
    ends.push_back({.key = chain.links[i].key,
                    .tokens = static_cast<float>(tokens[i] - begin),
                    .content = contents[blocks - 1]});
    begin = tokens[i];
  }
  return ends;
}

Result<PromptTokens> read_prompt_tokens(std::string_view response) {
  const auto invalid = fail(ErrorCode::kCorruption, "this is no prompt of tokens");
  try {
    const json said = json::parse(response);
    const json& ids = said.contains("token_ids") ? said.at("token_ids") : said.at("tokens");
    if (!ids.is_array() || ids.empty() || ids.size() > kMostPromptTokens) return invalid;
    PromptTokens prompt;
    prompt.tokens.reserve(ids.size());
    for (const json& id : ids) {
      if (!id.is_number_unsigned()) return invalid;
      prompt.tokens.push_back(id.get<std::uint32_t>());
    }
    const json features = said.value("features", json());
    if (features.is_object() && !read_media(features, prompt)) return invalid;
    const json salt = said.value("cache_salt", json());
    if (salt.is_string()) prompt.cache_salt = salt.get<std::string>();
    return prompt;
  } catch (const json::exception&) {
    return invalid;
  }
}

}  // namespace afterimage
