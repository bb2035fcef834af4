// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "afterimage/block_keys.h"
#include "caches/identity/cbor.h"
#include "caches/identity/span_walk.h"
#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

struct BlockRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

Result<void> check_items(const VllmSequence& sequence) {
  std::uint64_t free_from = 0;
  for (const VllmItem& item : sequence.items) {
    const std::uint64_t begin = item.offset.value();
    const std::uint64_t end = begin + item.length.value();
    if (begin == end || begin < free_from || end > sequence.tokens.size()) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("item '{}' covers [{}, {}) of {} tokens; items must not be empty, must stay "
                      "inside and must not overlap (the next may begin at {})",
                      item.identifier.text(), begin, end, sequence.tokens.size(), free_from));
    }
    free_from = end;
  }
  return {};
}

Result<void> check_embeds(const VllmSequence& sequence) {
  if (!sequence.prompt_embeds) return {};
  const auto [rows, row_bytes] = *sequence.prompt_embeds;
  if (row_bytes > 0 && rows.size() % row_bytes == 0 &&
      rows.size() / row_bytes <= sequence.tokens.size()) {
    return {};
  }
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{} bytes of prompt embeddings must be whole rows of {} bytes, at most one for "
                  "each of {} tokens",
                  rows.size(), row_bytes, sequence.tokens.size()));
}

std::span<const std::byte> rows_of(const VllmPromptEmbeds& embeds, BlockRange block) {
  const std::uint64_t rows = embeds.rows.size() / embeds.row_bytes;
  const std::uint64_t begin = std::min(block.begin, rows);
  const std::uint64_t end = std::min(block.end, rows);
  return embeds.rows.subspan(begin * embeds.row_bytes, (end - begin) * embeds.row_bytes);
}

/// Begins a key of one text or one digest: bare, or as the second element of a tagged pair.
CborWriter& open_key(CborWriter& cbor, VllmExtraKeys style, std::string_view tag) {
  if (style == VllmExtraKeys::kTagged) cbor.array(2).text(tag);
  return cbor;
}

void write_lora(CborWriter& cbor, VllmExtraKeys style, const VllmLora& lora) {
  if (style == VllmExtraKeys::kTagged) cbor.array(3).text("lora").text(lora.name).text(lora.path);
  if (style == VllmExtraKeys::kBare) cbor.text(lora.name);
}

void write_item(CborWriter& cbor, VllmExtraKeys style, const VllmItem& item, BlockRange block) {
  if (style == VllmExtraKeys::kTagged) cbor.array(3).text("mm");
  if (style == VllmExtraKeys::kBare) cbor.array(2);
  cbor.text(item.identifier.text())
      .integer(static_cast<std::int64_t>(item.offset.value()) -
               static_cast<std::int64_t>(block.begin));
}

/// vLLM's order: adapter, items, salt, prompt embeddings.
void write_extra_keys(CborWriter& cbor, VllmExtraKeys style, const VllmSequence& sequence,
                      std::span<const VllmItem> items, BlockRange block) {
  const bool salted = block.begin == 0 && !sequence.cache_salt.empty();
  const std::size_t count = items.size() + (sequence.lora ? 1U : 0U) + (salted ? 1U : 0U) +
                            (sequence.prompt_embeds ? 1U : 0U);
  if (count == 0) {
    cbor.null();
    return;
  }
  cbor.array(count);
  if (sequence.lora) write_lora(cbor, style, *sequence.lora);
  for (const VllmItem& item : items) write_item(cbor, style, item, block);
  if (salted) open_key(cbor, style, "cache_salt").text(sequence.cache_salt);
  if (sequence.prompt_embeds) {
    open_key(cbor, style, "prompt_embeds").bytes(sha256(rows_of(*sequence.prompt_embeds, block)));
  }
}

}  // namespace

Result<VllmBlockChain> VllmBlockChain::open(const VllmChainOptions& options) {
  if (options.block_tokens.value() == 0) {
    return fail(ErrorCode::kInvalidArgument, "a block of a key chain must have at least one token");
  }
  CborWriter seed;
  seed.text(options.none_hash_seed);
  return VllmBlockChain(BlockKey{sha256(seed.message())}, options);
}

Result<void> VllmBlockChain::extend(const VllmSequence& sequence,
                                    std::vector<BlockKey>& keys) const {
  const std::size_t size = block_tokens_.value();
  const std::size_t blocks = sequence.tokens.size() / size;
  if (keys.size() > blocks) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("got {} block keys for a sequence of {} tokens, which fills {} blocks of {}",
                    keys.size(), sequence.tokens.size(), blocks, size));
  }
  if (keys.size() == blocks) return {};
  AFI_TRY_VOID(check_items(sequence));
  AFI_TRY_VOID(check_embeds(sequence));

  SpanWalk<VllmItem> walk(sequence.items);
  CborWriter cbor;
  Sha256 hash;
  BlockKey parent = keys.empty() ? none_hash_ : keys.back();
  keys.reserve(blocks);
  for (std::size_t index = keys.size(); index < blocks; ++index) {
    const BlockRange block{.begin = index * size, .end = (index + 1) * size};
    cbor.clear();
    cbor.array(3).bytes(parent.bytes).array(size);
    for (std::size_t i = block.begin; i < block.end; ++i) {
      cbor.integer(std::to_underlying(sequence.tokens[i]));
    }
    write_extra_keys(cbor, extra_keys_, sequence, walk.overlapping(block.begin, block.end), block);
    hash.update(cbor.message());
    parent = BlockKey{hash.finish()};
    keys.push_back(parent);
  }
  return {};
}

std::uint64_t vllm_event_hash(const BlockKey& key) {
  std::uint64_t hash = 0;
  for (std::size_t i = kDigestBytes - 8; i < kDigestBytes; ++i) {
    hash = (hash << 8U) | std::to_integer<std::uint64_t>(key.bytes[i]);
  }
  return hash;
}

}  // namespace afterimage
