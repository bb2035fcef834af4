// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/content_chain.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

/// Fields of the body that change the prompt of a chat, besides messages and tools.
constexpr auto kPromptFields = std::to_array<std::string_view>(
    {"/chat_template", "/chat_template_kwargs", "/documents", "/cache_salt", "/prompt", "/input",
     "/add_generation_prompt", "/continue_final_message", "/mm_processor_kwargs"});

std::size_t block_size(std::size_t offset) {
  constexpr std::size_t kFine = 64UL * 1024;
  constexpr std::size_t kMedium = 1024UL * 1024;
  return offset < kFine ? 256 : offset < kMedium ? 1024 : 16384;
}

class ChainBuilder {
 public:
  /// Adds to the next link.
  void mix(char type, std::string_view bytes) {
    const std::uint64_t size = bytes.size();
    std::array<std::byte, 9> head{};
    head[0] = static_cast<std::byte>(type);
    for (unsigned i = 0; i < 8; ++i) {
      head[1 + i] = static_cast<std::byte>((size >> (8 * i)) & 0xFFU);
    }
    hash_.update(head);
    hash_.update(std::as_bytes(std::span(bytes)));
  }

  void add_text(std::string_view text) {
    mix('t', {});
    while (!text.empty()) {
      const std::string_view block = text.substr(0, block_size(offset_));
      text.remove_prefix(block.size());
      offset_ += block.size();
      mix('b', block);
      close({.key = {}, .text_bytes = static_cast<std::uint32_t>(block.size()), .media = {}});
    }
  }

  void add_media(const ApiMedia& media) {
    for (const auto& [name, value] : media.options) {
      if (name == "mime") continue;  // the engine sees decoded pixels
      mix('n', name);
      mix('v', value);
    }
    ChainLink link{.key = {}, .is_media = true, .media = media.digest.value_or(ContentDigest())};
    if (media.digest.has_value()) {
      mix('m', {reinterpret_cast<const char*>(link.media.bytes.data()), link.media.bytes.size()});
    } else {
      mix('a', media.address);
    }
    close(std::move(link));
  }

  void close(ChainLink link) {
    link.key.bytes = hash_.finish();
    hash_.update(link.key.bytes);
    chain_.links.push_back(std::move(link));
  }

  ContentChain take() { return std::move(chain_); }

 private:
  Sha256 hash_;
  std::size_t offset_ = 0;  // of text
  ContentChain chain_;
};

void add_message(ChainBuilder& chain, const ApiRequest& request, const ScopeMessage& message,
                 std::size_t& next_media) {
  for (const auto& part : message.parts) {
    if (const auto* text = std::get_if<std::string>(&part)) {
      chain.add_text(*text);
    } else if (std::holds_alternative<QuestionSlot>(part)) {
      chain.add_text(request.question);
    } else if (next_media < request.media.size()) {
      chain.add_media(request.media[next_media++]);
    }
  }
}

}  // namespace

ContentChain content_chain(const ApiRequest& request) {
  ChainBuilder chain;
  chain.mix('M', request.model);
  chain.mix('O', to_string(request.operation));
  const auto& other = request.scope.other;
  for (const std::string_view field : kPromptFields) {
    const auto found = other.find(std::string(field));
    if (found == other.end()) continue;
    chain.mix('F', field);
    chain.add_text(found->second);
  }
  if (!request.scope.tools.empty()) {
    chain.mix('T', {});
    chain.add_text(request.scope.tools);
  }
  std::size_t next_media = 0;
  for (std::size_t i = 0; i < request.scope.messages.size(); ++i) {
    const ScopeMessage& message = request.scope.messages[i];
    chain.mix('r', to_string(message.role));
    // Tool calls, names and whatever else a message has besides its content.
    const auto rest = other.find("/messages/" + std::to_string(i));
    if (rest != other.end()) chain.add_text(rest->second);
    add_message(chain, request, message, next_media);
  }
  return chain.take();
}

}  // namespace afterimage
