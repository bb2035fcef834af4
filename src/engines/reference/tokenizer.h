// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/media.h"
#include "afterimage/request.h"
#include "afterimage/sequence.h"

namespace afterimage {

/// Tokens 0 … 255 are bytes; the chat template's special tokens follow. Text is never tokenized to
/// a special token, so no user can write a role or a placeholder into a message.
enum class SpecialToken : std::int32_t {
  kBos = 256,
  kEos,
  kSystem,
  kUser,
  kAssistant,
  kTool,
  kEndOfTurn,
  kImage,
  kAudio,
  kVideo,
};
inline constexpr std::size_t kVocabulary = 266;

constexpr TokenId token(SpecialToken special) { return static_cast<TokenId>(special); }
/// The token that stands for each embedding of an item of this modality.
TokenId placeholder(Modality modality);

/// A media item in a prompt.
struct PlacedMedia {
  ContentDigest content;
  TokenCount length;
  std::uint32_t columns = 0;  // of its grid; 0: none
};

/// Template "afterimage-chat-1": bos; for each message its role, its parts in order and
/// end-of-turn; finally the start of the assistant's turn. A completion is bos and its parts, or its
/// tokens. `media` are the request's items in order
/// of appearance. Every span is splittable, because the decoder's attention is causal also inside
/// media.
Sequence chat_sequence(const Request& request, std::span<const PlacedMedia> media);

/// One line of printable ASCII: other bytes as \x0a, backslash as \\, special tokens as <user>.
std::string printable(std::span<const TokenId> tokens);

}  // namespace afterimage
