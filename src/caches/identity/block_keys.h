// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <string>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/kv_layout.h"
#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/units.h"
#include "caches/identity/keys.h"
#include "foundation/crypto/sha256.h"

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

}  // namespace afterimage
