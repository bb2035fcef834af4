// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/identity.h"
#include "afterimage/kv.h"
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

}  // namespace afterimage
