// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "caches/identity/block_keys.h"

namespace afterimage {

/// How a vLLM release encodes what a block depends on besides its tokens.
enum class VllmExtraKeys : unsigned char {
  kBare,    // 0.29: "name", ("image", -5), "salt", digest
  kTagged,  // 0.31 to 0.33: ("lora", "name", "path"), ("mm", "image", -5), ("cache_salt", "salt"),
            // ("prompt_embeds", digest)
};

/// vLLM's seed for the parent of the first block when PYTHONHASHSEED is not set.
inline constexpr std::string_view kVllmNoneHashSeed = "vllm-none-hash";

/// Settings that must agree with the engine's configuration.
struct VllmChainOptions {
  TokenCount block_tokens{16};                    // tokens per hash: `prefix_match_unit` if set
  std::string none_hash_seed{kVllmNoneHashSeed};  // PYTHONHASHSEED of the engine, if it is set
  VllmExtraKeys extra_keys = VllmExtraKeys::kTagged;
};

/// A media item and its position: vLLM's `mm_feature.identifier` and `mm_position`.
struct VllmItem {
  ItemId identifier;
  TokenCount offset{};
  TokenCount length{};
};

struct VllmLora {
  std::string name;
  std::string path;  // part of tagged keys only
};

/// Rows that replace token embeddings, contiguous as in the engine's tensor. A block past the last
/// row depends on an empty set of rows, which is hashed, too.
struct VllmPromptEmbeds {
  std::span<const std::byte> rows;
  std::size_t row_bytes = 0;
};

/// A request as vLLM hashes it. All text is UTF-8.
struct VllmSequence {
  std::vector<TokenId> tokens;
  std::vector<VllmItem> items;  // in order of offset, not overlapping
  std::optional<VllmLora> lora;
  std::string cache_salt;  // empty: none
  std::optional<VllmPromptEmbeds> prompt_embeds;
};

/// Block keys equal to those of a vLLM engine with `--prefix-caching-hash-algo sha256_cbor`, so
/// that a router, an external index or a shared tier can find the engine's blocks.
///
/// The keys do not cover model, weights, dtype or block size, and no secret protects them: use a
/// separate index per model and weights epoch, and prefer BlockChain where the format is free.
/// With bare extra keys, an adapter and a salt of the same name give the same first key (vLLM
/// #44701).
///
/// Unit     One key for each full block.
/// Errors   kInvalidArgument: no block size, an item that is empty, leaves the sequence, is out of
///          order or overlaps another, rows that are not whole, more keys than full blocks. A
///          failed call changes nothing.
/// Threads  Any; immutable.
/// Source   docs/formats/block-keys.md: the format, the vLLM releases and the known differences.
class VllmBlockChain {
 public:
  static Result<VllmBlockChain> open(const VllmChainOptions& options);

  /// Appends the keys of the blocks that have become full, as BlockChain::extend does.
  Result<void> extend(const VllmSequence& sequence, std::vector<BlockKey>& keys) const;

  /// vLLM's NONE_HASH: the parent of the first block.
  [[nodiscard]] const BlockKey& none_hash() const { return none_hash_; }
  [[nodiscard]] TokenCount block_tokens() const { return block_tokens_; }

 private:
  VllmBlockChain(const BlockKey& none_hash, const VllmChainOptions& options)
      : none_hash_(none_hash),
        block_tokens_(options.block_tokens),
        extra_keys_(options.extra_keys) {}

  BlockKey none_hash_;
  TokenCount block_tokens_;
  VllmExtraKeys extra_keys_;
};

/// The number by which KV events name a block under VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES: the last
/// eight bytes, big-endian.
[[nodiscard]] std::uint64_t vllm_event_hash(const BlockKey& key);

}  // namespace afterimage
