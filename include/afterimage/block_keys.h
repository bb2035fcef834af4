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
#include "afterimage/identity.h"
#include "afterimage/ids.h"
#include "afterimage/kv_layout.h"
#include "afterimage/result.h"
#include "afterimage/secret.h"
#include "afterimage/sequence.h"
#include "afterimage/units.h"

namespace afterimage {

/// Identifies the KV of one block of tokens together with everything before it.
using BlockKey = Digest<struct BlockKeyTag>;

/// What all blocks of one engine have in common, besides the namespace.
struct BlockScope {
  TokenCount block_tokens{16};
  KvLayout layout;  // of the engine that wrote the rows
  /// Name and version of the preprocessing that turns media into rows: two recipes may produce the
  /// same number of rows for an image, with different values.
  std::string preprocessing;
};

/// Block keys by our own schema: each key is a MAC over the key before it, the block's tokens and
/// the media spans that overlap the block, under a secret of the namespace.
///
/// Two blocks have the same key only if model, weights epoch, adapter, template, KV dtype, tenant,
/// scope and everything before them are the same. Without the secret nobody can tell what a key
/// stands for, nor compute the key of a block that follows a known one.
///
/// Unit     One key for each full block; prefixes that end inside a block have keys of their own,
///          on request.
/// Errors   kInvalidArgument: no block size, a bad layout, bad spans, more keys than full blocks. A
///          failed call changes nothing.
/// Threads  Any; immutable.
/// Cost     One SHA-256 a block, of 72 bytes, 4 per token and 46 per overlapping span.
/// Source   docs/formats/block-keys.md; golden vectors by tests/golden/block_keys.py.
class BlockChain {
 public:
  static Result<BlockChain> open(const Namespace& space, const BlockScope& scope);

  /// Appends the keys of the blocks that have become full since the last call. `keys` holds the
  /// keys of the first blocks of the same sequence; empty for the first call.
  Result<void> extend(const Sequence& sequence, std::vector<BlockKey>& keys) const;

  /// The keys of the prefixes of `first`, first + 1, …, `last` tokens. Requires 0 < first, that all
  /// these prefixes end in one block, and that `keys` holds at least the keys of the full blocks
  /// before it. A prefix that ends with a full block has that block's key.
  [[nodiscard]] Result<std::vector<BlockKey>> keys_of_ends(const Sequence& sequence,
                                                           std::span<const BlockKey> keys,
                                                           TokenCount first, TokenCount last) const;

  [[nodiscard]] TokenCount block_tokens() const { return block_tokens_; }

 private:
  BlockChain(const Secret& secret, TokenCount block_tokens)
      : secret_(secret), block_tokens_(block_tokens) {}

  Secret secret_;
  TokenCount block_tokens_;
};

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
