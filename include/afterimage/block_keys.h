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

/// Names the KV of one block of tokens together with everything that stands before it.
using BlockKey = Digest<struct BlockKeyTag>;

/// What the blocks of one engine have in common, besides the namespace.
struct BlockScope {
  TokenCount block_tokens{16};
  KvLayout layout;            // of the engine that wrote the rows
  std::string preprocessing;  // what turns media into rows, by name and version: two recipes may
                              // give one picture equally many rows, and other ones
};

/// Block keys by our own schema: each key is a MAC over the key before it, the block's tokens and
/// the media spans that overlap the block, under a secret of the namespace.
///
/// Two blocks have one key only if model, weights' epoch, adapter, template, KV dtype, tenant,
/// scope and all that precedes them are the same. Without the secret nobody can tell what a key
/// stands for, nor compute the key of a block that follows a known one.
///
/// Unit     One key for each full block; prefixes that end inside one have keys of their own, if
/// asked. Errors   kInvalidArgument: no block size, a bad layout, bad spans, more keys than full
/// blocks. A
///          failed call changes nothing.
/// Threads  Any; immutable. Cost: one SHA-256 of 72 bytes, 4 a token and 46 an overlapping span.
/// Source   docs/formats/block-keys.md; golden vectors by tests/golden/block_keys.py.
class BlockChain {
 public:
  static Result<BlockChain> open(const Namespace& space, const BlockScope& scope);

  /// Appends the keys of the blocks that became full since. `keys` are those of the first blocks of
  /// this same sequence, as an earlier call left them; empty at first.
  Result<void> extend(const Sequence& sequence, std::vector<BlockKey>& keys) const;

  /// The keys of the first `first`, first + 1, …, `last` tokens of the sequence. These ends lie in
  /// one block, 0 < first; `keys` are those of at least the full blocks before it. What ends with a
  /// full block has that block's key.
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

/// How a release of vLLM writes what a block depends on besides its tokens.
enum class VllmExtraKeys : unsigned char {
  kBare,    // 0.29: "name", ("image", -5), "salt", digest
  kTagged,  // 0.31 to 0.33: ("lora", "name", "path"), ("mm", "image", -5), ("cache_salt", "salt"),
            // ("prompt_embeds", digest)
};

/// What vLLM hashes, when PYTHONHASHSEED is not set, for the block before the first.
inline constexpr std::string_view kVllmNoneHashSeed = "vllm-none-hash";

/// What must agree with the engine's own configuration.
struct VllmChainOptions {
  TokenCount block_tokens{16};                    // tokens a hash: `prefix_match_unit` if set
  std::string none_hash_seed{kVllmNoneHashSeed};  // PYTHONHASHSEED of the engine, if it is set
  VllmExtraKeys extra_keys = VllmExtraKeys::kTagged;
};

/// A media item where vLLM's processor put it: `mm_feature.identifier` and `mm_position`.
struct VllmItem {
  ItemId identifier;
  TokenCount offset{};
  TokenCount length{};
};

struct VllmLora {
  std::string name;
  std::string path;  // part of tagged keys only
};

/// Rows that take the place of token embeddings, contiguous, as the engine's tensor holds them.
/// A block past the last row depends on no rows, which is a value too.
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

/// Block keys equal to those of a vLLM engine run with `--prefix-caching-hash-algo sha256_cbor`, so
/// that a router, an external index or a shared tier finds by them what the engine stored.
///
/// They say nothing of model, weights, dtype or block size, and no secret protects them: across
/// engines keep one index a model and weights' epoch, and use BlockChain where the choice is ours.
/// With bare extra keys an adapter and a salt of one name share their first key (vLLM #44701).
///
/// Unit     One key for each full block.
/// Errors   kInvalidArgument: no block size, an item that is empty, leaves the sequence, is out of
///          order or overlaps another, rows that are not whole, more keys than full blocks. A
///          failed call changes nothing.
/// Threads  Any; immutable.
/// Source   docs/formats/block-keys.md has the form, the releases and the limits of the agreement.
class VllmBlockChain {
 public:
  static Result<VllmBlockChain> open(const VllmChainOptions& options);

  /// Appends the keys of the blocks that became full since, as BlockChain::extend does.
  Result<void> extend(const VllmSequence& sequence, std::vector<BlockKey>& keys) const;

  /// vLLM's NONE_HASH: what the first block has for a parent.
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
