// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/prompt_example.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "gateway/prompts/prompt_parts.h"

namespace afterimage {
namespace {

bool goes_on(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

/// The place, or that of the character that it is within.
std::size_t character_at(std::string_view text, std::size_t place) {
  while (place > 0 && place < text.size() && goes_on(text[place])) --place;
  return std::min(place, text.size());
}

/// Up to `most` bytes of the part's text from `begin` on.
std::string text_from(const std::vector<PartPiece>& pieces, const PartPlace& part,
                      std::uint64_t begin, std::uint64_t most) {
  std::string text;
  for (const PartPiece& piece : pieces) {
    if (piece.part != part || piece.kind != PartPiece::Kind::kText) continue;
    if (begin < piece.text.size()) text += piece.text.substr(begin, most - text.size());
    begin -= std::min<std::uint64_t>(begin, piece.text.size());
  }
  return text;
}

}  // namespace

std::optional<PromptExample> example_of(const ApiRequest& request,
                                        const PromptDivergence& divergence) {
  if (!divergence.part.has_value() || divergence.change == PartChange::kRemoved) {
    return std::nullopt;
  }
  const std::uint64_t offset = divergence.offset.value_or(0);
  const std::size_t before = std::min<std::uint64_t>(offset, PromptExample::kBefore);
  const std::size_t most = before + PromptExample::kAfter;
  // One more tells whether the last character is whole.
  const std::string text =
      text_from(prompt_pieces(request), *divergence.part, offset - before, most + 1);
  if (text.empty()) return std::nullopt;
  const std::size_t place = character_at(text, before);
  std::size_t first = 0;
  while (first < place && goes_on(text[first])) ++first;
  return PromptExample{.before = text.substr(first, place - first),
                       .after = text.substr(place, character_at(text, most) - place)};
}

}  // namespace afterimage
