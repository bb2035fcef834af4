// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/tokenizer.h"

#include "afterimage/result.h"

namespace afterimage {
namespace {

TokenId role_token(Role role) {
  switch (role) {
    case Role::kSystem:
      return token(SpecialToken::kSystem);
    case Role::kUser:
      return token(SpecialToken::kUser);
    case Role::kAssistant:
      return token(SpecialToken::kAssistant);
    case Role::kTool:
      return token(SpecialToken::kTool);
  }
  AFI_CHECK(false && "a Role outside the list");
  return token(SpecialToken::kUser);
}

void append_text(std::string_view text, std::vector<TokenId>& tokens) {
  for (const char c : text) tokens.push_back(static_cast<TokenId>(static_cast<unsigned char>(c)));
}

void append_media(Modality modality, const PlacedMedia& placed, Sequence& sequence) {
  sequence.spans.push_back(
      {.offset = TokenCount(static_cast<std::uint32_t>(sequence.tokens.size())),
       .length = placed.length,
       .modality = modality,
       .content = placed.content,
       .splittable = true,
       .columns = placed.columns});
  sequence.tokens.insert(sequence.tokens.end(), placed.length.value(), placeholder(modality));
}

constexpr std::array<std::string_view, kVocabulary - 256> kSpecialNames = {
    "bos", "eos", "system", "user", "assistant", "tool", "end_of_turn", "image", "audio", "video"};

std::string printable(std::int32_t id) {
  if (id < 0 || static_cast<std::size_t>(id) >= kVocabulary) return "<?>";
  if (id >= 256) return "<" + std::string(kSpecialNames[static_cast<std::size_t>(id) - 256]) + ">";
  if (id == '\\') return "\\\\";
  if (id >= 0x20 && id < 0x7F) return {static_cast<char>(id)};
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = static_cast<std::size_t>(id);
  return {'\\', 'x', kDigits[byte / 16], kDigits[byte % 16]};
}

}  // namespace

TokenId placeholder(Modality modality) {
  switch (modality) {
    case Modality::kImage:
      return token(SpecialToken::kImage);
    case Modality::kAudio:
      return token(SpecialToken::kAudio);
    case Modality::kVideo:
      return token(SpecialToken::kVideo);
  }
  AFI_CHECK(false && "a Modality outside the list");
  return token(SpecialToken::kImage);
}

Sequence chat_sequence(const Request& request, std::span<const PlacedMedia> media) {
  Sequence sequence;
  std::size_t next_item = 0;
  if (!request.prompt_tokens.empty()) {
    sequence.tokens = request.prompt_tokens;
    return sequence;
  }
  sequence.tokens.push_back(token(SpecialToken::kBos));
  for (const Message& message : request.messages) {
    if (message.role == Role::kUser && !request.is_completion) {
      sequence.branches = {TokenCount(static_cast<std::uint32_t>(sequence.tokens.size()))};
    }
    if (!request.is_completion) sequence.tokens.push_back(role_token(message.role));
    for (const ContentPart& part : message.parts) {
      if (const auto* item = std::get_if<MediaItem>(&part)) {
        AFI_CHECK(next_item < media.size());
        append_media(item->modality, media[next_item++], sequence);
      } else {
        append_text(std::get<std::string>(part), sequence.tokens);
      }
    }
    if (!request.is_completion) sequence.tokens.push_back(token(SpecialToken::kEndOfTurn));
  }
  if (!request.is_completion) sequence.tokens.push_back(token(SpecialToken::kAssistant));
  return sequence;
}

std::string printable(std::span<const TokenId> tokens) {
  std::string text;
  for (const TokenId id : tokens) text += printable(static_cast<std::int32_t>(id));
  return text;
}

}  // namespace afterimage
