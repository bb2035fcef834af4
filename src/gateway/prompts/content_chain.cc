// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/content_chain.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

constexpr std::size_t kUsualLink = 512;  // bytes that are hashed for one

class ChainBuilder {
 public:
  /// `links`: about how many there will be.
  explicit ChainBuilder(std::size_t links) {
    next_.reserve(kUsualLink);
    chain_.links.reserve(links);
  }

  /// Adds to the next link.
  void mix(char type, std::string_view bytes) {
    const std::uint64_t size = bytes.size();
    std::array<char, 9> head{type};
    for (unsigned i = 0; i < 8; ++i) {
      head[1 + i] = static_cast<char>((size >> (8 * i)) & 0xFFU);
    }
    next_.append(head.data(), head.size()).append(bytes);
  }

  /// `part`: where its next link begins.
  void add_text(std::string_view text, const PartPlace& part) {
    begin(part);
    mix('t', {});
    while (!text.empty()) {
      const std::string_view block = text.substr(0, link_bytes(offset_));
      text.remove_prefix(block.size());
      offset_ += block.size();
      mix('b', block);
      close({.key = {}, .text_bytes = static_cast<std::uint32_t>(block.size()), .media = {}});
      in_part_ += static_cast<std::uint32_t>(block.size());
    }
  }

  void add_media(const ApiMedia& media, const PartPlace& part) {
    const auto before = std::pair(part_, in_part_);
    begin(part);
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
    std::tie(part_, in_part_) = before;
  }

  ContentChain take() { return std::move(chain_); }

 private:
  void begin(const PartPlace& part) {
    if (part != part_) in_part_ = 0;
    part_ = part;
  }
  void close(ChainLink link) {
    link.part = part_;
    link.begin = in_part_;
    // In one piece: a call of the hash takes longer than to hash a few bytes.
    link.key.bytes = sha256(std::as_bytes(std::span(next_)));
    next_.assign(reinterpret_cast<const char*>(link.key.bytes.data()), link.key.bytes.size());
    chain_.links.push_back(std::move(link));
  }

  std::string next_;        // what its next key is of
  std::size_t offset_ = 0;  // of text
  PartPlace part_;
  std::uint32_t in_part_ = 0;  // bytes of its text so far
  ContentChain chain_;
};

/// Of a part's beginning; a tool has none.
void mix_name(ChainBuilder& chain, const PartPiece& piece, const ApiRequest& request) {
  switch (piece.part.kind) {
    case PartKind::kModel:
      chain.mix('M', piece.text);
      return chain.mix('O', to_string(request.operation));
    case PartKind::kParameters:
      return chain.mix('F', "/" + std::string(piece.text));
    case PartKind::kPrompt:
      if (piece.text == "prompt" || piece.text == "input") {
        return chain.mix('F', "/" + std::string(piece.text));
      }
      break;
    case PartKind::kTools:
    case PartKind::kSystem:
    case PartKind::kMessages:
    case PartKind::kMedia:
      break;
  }
  chain.mix('r', piece.text);
}

}  // namespace

std::size_t link_bytes(std::size_t offset) {
  constexpr std::size_t kFine = 64UL * 1024;
  constexpr std::size_t kMedium = 1024UL * 1024;
  return offset < kFine ? 256 : offset < kMedium ? 1024 : 16384;
}

ContentChain content_chain(const ApiRequest& request) {
  ChainBuilder chain(2 + request.scope.messages.size() + request.question.size() / link_bytes(0));
  bool has_tools = false;
  for (const PartPiece& piece : prompt_pieces(request)) {
    if (piece.part.kind == PartKind::kTools && !std::exchange(has_tools, true)) chain.mix('T', {});
    switch (piece.kind) {
      case PartPiece::Kind::kName:
        mix_name(chain, piece, request);
        break;
      case PartPiece::Kind::kFields:
      case PartPiece::Kind::kText:
        chain.add_text(piece.text, piece.part);
        break;
      case PartPiece::Kind::kMedia:
        chain.add_media(*piece.media, piece.part);
        break;
    }
  }
  return chain.take();
}

const std::shared_ptr<const ContentChain>& SharedChain::get() {
  return chain_.get(
      [this] { return std::make_shared<const ContentChain>(content_chain(*request_)); });
}

}  // namespace afterimage
