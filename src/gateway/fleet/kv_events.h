// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "afterimage/result.h"
#include "gateway/fleet/prompt_tokens.h"
#include "gateway/prompts/content_chain.h"

namespace afterimage {

/// The first of a block's extra_keys where block_hashes are keys of content chains, as
/// `afterimage serve` publishes them: then they say which content a block holds.
inline constexpr std::string_view kContentMark = "afterimage:content:1";

/// One change of an engine's KV cache, as vLLM publishes it.
struct KvEvent {
  enum class Kind : unsigned char { kStored, kRemoved, kCleared };
  Kind kind = Kind::kCleared;
  std::vector<std::uint64_t> blocks;  // hashes of the engine's block hashes
  std::uint32_t block_tokens = 0;     // of kStored
  std::uint8_t medium = 0;            // a bit for each: GPU memory is 1, others share 2, 4, …
  std::uint64_t group = 0;            // of layers
  /// What the group's blocks hold, of kStored: all that came before, or the last window of it (vLLM's
  /// kv_cache_spec_kind). A prompt whose window is held may have lost its beginning.
  enum class Reach : unsigned char { kUnsaid, kAll, kPart };
  Reach reach = Reach::kUnsaid;
  std::vector<ChainKey> keys = {};  // the block hashes that have 32 bytes
  bool names_content = false;       // of kStored: extra_keys bear kContentMark
  // Of kStored, what the blocks hold, as far as the engine says so:
  std::optional<std::uint64_t> parent = std::nullopt;  // a hash as in `blocks`; of the block before
  bool is_first = false;                               // there is no block before
  std::vector<std::uint32_t> token_ids = {};           // of all blocks
  std::vector<std::vector<std::string_view>> extra =
      {};                         // of each block: the texts of its extra_keys
  std::string_view adapter = {};  // LoRA; empty: none
};

struct KvEventBatch {
  std::vector<KvEvent> events;
  std::size_t unknown = 0;  // events of other kinds
};

/// Reads the payload of one message: MessagePack of an EventBatch, as arrays (vLLM up to 0.11) or as
/// maps (later), with or without fields that later versions added. Texts of the events are views of
/// the payload.
///
/// Errors   kCorruption: not such bytes.
/// Cost     Linear; memory in proportion to the bytes, whatever they say.
/// Source   vllm/distributed/kv_events.py.
[[nodiscard]] Result<KvEventBatch> parse_kv_events(std::span<const std::byte> payload);

/// The blocks that one engine says it holds, and the tokens of those whose beginning is known, too: a
/// block whose parent was not announced has no content. Of an engine with several groups of layers only
/// the first that holds all that came before counts: a sliding window is not residency.
///
/// Threads  Not thread-safe.
class EngineBlocks {
 public:
  static constexpr std::size_t kMostBlocks = 262'144;

  struct Effect {
    bool cleared = false;
    double evicted_share = 0;  // of the tokens that were there
    /// Contents that came (true) or went, in order.
    std::vector<std::pair<BlockContent, bool>> contents = {};
  };
  [[nodiscard]] Effect apply(const KvEventBatch& batch);
  void clear();

  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
  [[nodiscard]] double tokens() const { return tokens_; }
  [[nodiscard]] bool holds(BlockContent content) const { return contents_.contains(content); }
  /// Of the blocks whose content is known; 0: none is.
  [[nodiscard]] std::uint32_t block_tokens() const { return block_tokens_; }

 private:
  struct Block {
    std::uint32_t tokens = 0;
    std::uint8_t media = 0;
    BlockContent content = 0;
  };
  /// Whether the event is of the group that counts.
  [[nodiscard]] bool counts(const KvEvent& event);
  void store(const KvEvent& event, Effect& effect);
  /// The tokens that are nowhere any more.
  double remove(const KvEvent& event, Effect& effect);

  std::unordered_map<std::uint64_t, Block> blocks_;
  std::unordered_map<BlockContent, std::uint32_t> contents_;  // how many blocks hold it
  std::optional<std::uint64_t> group_;  // that counts; nullopt: the first, if it says no reach
  std::uint32_t block_tokens_ = 0;
  double tokens_ = 0;
};

/// Follows the sequence numbers of one publisher.
class KvSequence {
 public:
  enum class Step : unsigned char {
    kNext,       // in order
    kGap,        // batches are missing from expected() on
    kRestarted,  // the publisher began anew
  };
  /// Of the first batch ever: kNext.
  [[nodiscard]] Step see(std::uint64_t sequence) const;
  void applied(std::uint64_t sequence) { next_ = sequence + 1; }
  [[nodiscard]] bool has_begun() const { return next_.has_value(); }
  [[nodiscard]] std::uint64_t expected() const { return next_.value_or(0); }
  void forget() { next_.reset(); }

 private:
  std::optional<std::uint64_t> next_;
};

}  // namespace afterimage
