// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "afterimage/block_keys.h"
#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/units.h"

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

/// A prompt that looks for its beginning.
struct BlockQuery {
  std::span<const BlockKey> keys;    // of its full blocks, from the first
  TokenCount tokens{};               // its whole length
  std::span<const MediaSpan> spans;  // in order of offset, not overlapping
};

struct BlockMatch {
  TokenCount length{};          // tokens that need no prefill: whole blocks
  std::vector<BlockId> blocks;  // of position p and group g: blocks[p * groups + g]
};

/// The blocks of a paged KV cache: who uses them, what is in them, and which goes next. It holds no
/// rows: the engine keeps them, the pool says where they are.
///
/// A block is held, by one sequence or more, or free. A free block keeps its key and is found by it
/// until it is allocated again: least recently released first and, of the blocks that were released
/// together, last first, so that the tail of a chain goes before what it continues. A block
/// released without a key goes before all others. Blocks with one key may stand side by side; the
/// one that was published first is found.
///
/// Unit     Blocks of `block_tokens` tokens.
/// Errors   kNoSpace: more blocks asked for than are free. kInvalidArgument: a block that does not
///          exist or is not held, a second key, bad spans. A failed call changes nothing. No match
///          is a normal answer.
/// Threads  Not thread-safe: one scheduler thread owns it. Cost: O(1) amortized a block,
///          and O(spans) a match.
/// Source   Order of reuse and the limit of a match as in vLLM V1's block pool; the clamp at
///          media as in mistral.rs.
class BlockPool {
 public:
  /// kInvalidArgument: no blocks, tokens or groups. kLimitExceeded: 2^32 - 1 blocks or more.
  static Result<BlockPool> open(const BlockPoolOptions& options);
  BlockPool(BlockPool&& other) noexcept;
  BlockPool& operator=(BlockPool&& other) noexcept;
  ~BlockPool();

  /// The longest beginning of the prompt whose blocks are resident in every group, at most
  /// (tokens - 1) / block_tokens of them, because the last token must be computed to be answered;
  /// and none that ends inside an unsplittable span. Changes nothing; the blocks may be gone after
  /// the next allocate().
  [[nodiscard]] Result<BlockMatch> match(const BlockQuery& query) const;
  /// match(), and one reference to each block of it.
  [[nodiscard]] Result<BlockMatch> take(const BlockQuery& query);
  /// One more reference to each of these blocks, all of which are held: a fork.
  Result<void> share(std::span<const BlockId> blocks);
  /// `count` blocks without a key, one reference each. What they held is no longer found.
  [[nodiscard]] Result<std::vector<BlockId>> allocate(std::size_t count);
  /// Says that a held block now has all rows that `key` names. False, and nothing is published, if
  /// the pool was reset since the block was allocated. The same key once more changes nothing.
  Result<bool> publish(BlockId block, const BlockKey& key, KvGroup group = KvGroup(0));
  /// Gives back one reference to each block. Give them in the order of the sequence: the last
  /// is the first to be allocated again.
  Result<void> release(std::span<const BlockId> blocks);
  /// Takes a block's key away, if it has one: its rows are not what the key says.
  Result<void> forget(BlockId block);
  /// Takes every key away. Held blocks stay held, but what they hold can no longer be published.
  void reset();

  [[nodiscard]] std::size_t blocks() const;
  [[nodiscard]] std::size_t free_blocks() const;
  /// Blocks that have a key, free or held.
  [[nodiscard]] std::size_t published_blocks() const;
  /// nullopt: no such block.
  [[nodiscard]] std::optional<std::uint32_t> references(BlockId block) const;
  /// A copy for people and tests, next to be allocated first.
  [[nodiscard]] std::vector<BlockId> free_order() const;
  /// Recounts everything in O(n); a difference is a broken invariant.
  void check_invariants() const;

 private:
  struct State;
  explicit BlockPool(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
