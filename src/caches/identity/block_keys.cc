// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/identity/block_keys.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "caches/identity/fields.h"
#include "caches/identity/span_walk.h"
#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

/// The message whose digest is one block's key. Secret and parent fill SHA-256's first 64 bytes.
///
/// Counts precede the items that they count, so no message is a prefix of another. That and the
/// secret in front make plain SHA-256 a MAC without HMAC's second pass.
class BlockMessage {
 public:
  explicit BlockMessage(const Secret& secret) { append(secret); }

  std::span<const std::byte> write(const BlockKey& parent, std::span<const TokenId> tokens,
                                   std::uint64_t begin, std::span<const MediaSpan> spans) {
    message_.resize(sizeof(Secret));
    append(parent.bytes);
    append_number<std::uint32_t>(tokens.size());
    append_number<std::uint32_t>(spans.size());
    append_tokens(tokens);
    for (const MediaSpan& span : spans) {
      append(span.content.bytes);
      append_number<std::uint64_t>(span.offset.value() -
                                   begin);  // two's complement if it began earlier
      append_number<std::uint32_t>(span.length.value());
      append_number<std::uint8_t>(std::to_underlying(span.modality));
      append_number<std::uint8_t>(span.splittable ? 1 : 0);
    }
    return message_;
  }

 private:
  void append(std::span<const std::byte> bytes) {
    message_.insert(message_.end(), bytes.begin(), bytes.end());
  }

  void append_tokens(std::span<const TokenId> tokens) {
    std::size_t at = message_.size();
    message_.resize(at + 4 * tokens.size());
    for (const TokenId token : tokens) {
      const auto bits = static_cast<std::uint32_t>(std::to_underlying(token));
      for (unsigned i = 0; i < 4; ++i) {
        message_[at++] = static_cast<std::byte>((bits >> (8 * i)) & 0xFFU);
      }
    }
  }

  template <typename T>
  void append_number(std::uint64_t value) {
    std::array<std::byte, sizeof(T)> bytes;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes[i] = static_cast<std::byte>((value >> (8 * i)) & 0xFFU);
    }
    append(bytes);
  }

  std::vector<std::byte> message_;
};

void write_layout(const KvLayout& layout, FieldWriter& fields) {
  fields.number("alignment", layout.alignment.value()).number("groups", layout.groups.size());
  for (const LayerGroup& group : layout.groups) {
    fields.number("kind", std::to_underlying(group.kind))
        .number("layers", group.layers)
        .number("window", group.window.value())
        .number("owner", group.owner)
        .number("row_bytes", group.row_bytes.value())
        .number("state_bytes", group.state_bytes.value());
  }
}

}  // namespace

Result<BlockChain> BlockChain::open(const Namespace& space, const BlockScope& scope) {
  if (scope.block_tokens.value() == 0) {
    return fail(ErrorCode::kInvalidArgument, "a block of a key chain must have at least one token");
  }
  AFI_TRY_VOID(check_layout(scope.layout));
  FieldWriter fields("afterimage/block-chain/1");
  fields.number("block_tokens", scope.block_tokens.value())
      .text("preprocessing", scope.preprocessing);
  write_layout(scope.layout, fields);
  return BlockChain(space.derive(fields), scope.block_tokens);
}

Result<void> BlockChain::extend(const Sequence& sequence, std::vector<BlockKey>& keys) const {
  const std::size_t size = block_tokens_.value();
  const std::size_t blocks = sequence.tokens.size() / size;
  if (keys.size() > blocks) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("got {} block keys for a sequence of {} tokens, which fills {} blocks of {}",
                    keys.size(), sequence.tokens.size(), blocks, size));
  }
  if (keys.size() == blocks) return {};
  AFI_TRY_VOID(check_sequence(sequence));

  const std::span<const TokenId> tokens = sequence.tokens;
  SpanWalk<MediaSpan> walk(sequence.spans);
  BlockMessage message(secret_);
  Sha256 hash;
  BlockKey parent = keys.empty() ? BlockKey{} : keys.back();
  keys.reserve(blocks);
  for (std::size_t block = keys.size(); block < blocks; ++block) {
    const std::size_t begin = block * size;
    hash.update(message.write(parent, tokens.subspan(begin, size), begin,
                              walk.overlapping(begin, begin + size)));
    parent = BlockKey{hash.finish()};
    keys.push_back(parent);
  }
  return {};
}

Result<std::vector<BlockKey>> BlockChain::keys_of_ends(const Sequence& sequence,
                                                       std::span<const BlockKey> keys,
                                                       TokenCount first, TokenCount last) const {
  const std::size_t size = block_tokens_.value();
  if (first.value() == 0 || first > last || last.value() > sequence.tokens.size()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("prefixes of {} to {} tokens do not exist in a sequence of {} tokens",
                            first.value(), last.value(), sequence.tokens.size()));
  }
  const std::size_t block = (first.value() - 1) / size;
  if ((last.value() - 1) / size != block || keys.size() < block) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("prefixes of {} to {} tokens must end in one block of {} tokens, and "
                            "the {} blocks before it need keys; got {} keys",
                            first.value(), last.value(), size, block, keys.size()));
  }
  AFI_TRY_VOID(check_sequence(sequence));
  const std::span<const TokenId> tokens = sequence.tokens;
  const std::size_t begin = block * size;
  const BlockKey parent = block == 0 ? BlockKey{} : keys[block - 1];
  BlockMessage message(secret_);
  Sha256 hash;
  std::vector<BlockKey> ends;
  for (std::size_t end = first.value(); end <= last.value(); ++end) {
    SpanWalk<MediaSpan> walk(sequence.spans);
    hash.update(message.write(parent, tokens.subspan(begin, end - begin), begin,
                              walk.overlapping(begin, end)));
    ends.push_back(BlockKey{hash.finish()});
  }
  return ends;
}

}  // namespace afterimage
