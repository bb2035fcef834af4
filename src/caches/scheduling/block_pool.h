// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/units.h"
#include "caches/identity/block_keys.h"

namespace afterimage {

/// A paged engine's KV block, counted from 0. An id is not a number: no arithmetic.
enum class BlockId : std::uint32_t {};
/// Layers whose rows share blocks; each group has its own block for the same tokens.
enum class KvGroup : std::uint32_t {};

struct BlockPoolOptions {
  std::uint32_t blocks = 0;     // of all groups together
  TokenCount block_tokens{16};  // the same in every group
  std::uint32_t groups = 1;
};

/// A prompt whose longest cached prefix is looked up.
struct BlockQuery {
  std::span<const BlockKey> keys;    // of its full blocks, from the first
  TokenCount tokens{};               // its whole length
  std::span<const MediaSpan> spans;  // in order of offset, not overlapping
};

struct BlockMatch {
  TokenCount length{};          // tokens that need no prefill: whole blocks
  std::vector<BlockId> blocks;  // of position p and group g: blocks[p * groups + g]
};

/// The bookkeeping of a paged KV cache: reference counts, keys and the free list of its blocks. The
/// pool holds no rows; the engine stores them in the blocks.
///
/// A block is held by one sequence or more, or free. A free block can be found by its key until it
/// is allocated again. Allocation takes the least recently released block; of blocks released
/// together, the last one, so that the tail of a chain is reused before its parents. Blocks
/// released without a key are reused first. Several blocks may have the same key; the one that was
/// published first is found.
///
/// Unit     Blocks of `block_tokens` tokens.
/// Errors   kNoSpace: not enough free blocks. kInvalidArgument: a block that does not exist or is
///          not held, a second key, bad spans. A failed call changes nothing. No match is a normal
///          result.
/// Threads  Not thread-safe: one scheduler thread owns it.
/// Cost     O(1) amortized per block, and O(spans) per match.
/// Source   Order of reuse and the limit of a match as in vLLM V1's block pool; the clamp at media
///          as in mistral.rs.
class BlockPool {
 public:
  /// kInvalidArgument: no blocks, tokens or groups. kLimitExceeded: 2^32 - 1 blocks or more.
  static Result<BlockPool> open(const BlockPoolOptions& options);
  BlockPool(BlockPool&& other) noexcept;
  BlockPool& operator=(BlockPool&& other) noexcept;
  ~BlockPool();

  /// The longest prefix of the prompt whose blocks are resident in every group: at most
  /// (tokens - 1) / block_tokens blocks, because the last token must be computed, and not ending
  /// inside an unsplittable span. Changes nothing; the next allocate() may reuse the blocks.
  [[nodiscard]] Result<BlockMatch> match(const BlockQuery& query) const;
  /// match(), and takes one reference to each matched block.
  [[nodiscard]] Result<BlockMatch> take(const BlockQuery& query);
  /// Takes one more reference to each of these blocks, all of which must be held: a fork.
  Result<void> share(std::span<const BlockId> blocks);
  /// Takes `count` free blocks, with one reference each. They lose their keys.
  [[nodiscard]] Result<std::vector<BlockId>> allocate(std::size_t count);
  /// Publishes a held block under `key`, once it has all rows of that key. False, and nothing is
  /// published, if the pool was reset since the block was allocated. Publishing the same key again
  /// changes nothing.
  Result<bool> publish(BlockId block, const BlockKey& key, KvGroup group = KvGroup(0));
  /// Drops one reference to each block. Pass them in the order of the sequence: the last one is the
  /// first to be allocated again.
  Result<void> release(std::span<const BlockId> blocks);
  /// Removes a block's key, if it has one: for rows that turned out not to match the key.
  Result<void> forget(BlockId block);
  /// Removes every key. Held blocks stay held, but can no longer be published.
  void reset();

  [[nodiscard]] std::size_t blocks() const;
  [[nodiscard]] std::size_t free_blocks() const;
  /// Blocks that have a key, free or held.
  [[nodiscard]] std::size_t published_blocks() const;
  /// nullopt: no such block.
  [[nodiscard]] std::optional<std::uint32_t> references(BlockId block) const;
  /// The free blocks in order of allocation; a copy, for people and tests.
  [[nodiscard]] std::vector<BlockId> free_order() const;
  /// Recounts everything in O(n); a difference is a broken invariant.
  void check_invariants() const;

 private:
  struct State;
  explicit BlockPool(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
