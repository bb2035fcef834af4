// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "afterimage/result.h"
#include "gateway/fleet/content_chain.h"

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
  std::vector<ChainKey> keys = {};    // the block hashes that have 32 bytes
  bool names_content = false;         // of kStored: extra_keys bear kContentMark
};

struct KvEventBatch {
  std::vector<KvEvent> events;
  std::size_t unknown = 0;  // events of other kinds, and of other layer groups than the first
};

/// Reads the payload of one message: MessagePack of an EventBatch, as arrays (vLLM up to 0.11) or as
/// maps (later), with or without fields that later versions added.
///
/// Errors   kCorruption: not such bytes.
/// Cost     Linear; memory in proportion to the bytes, whatever they say.
/// Source   vllm/distributed/kv_events.py.
[[nodiscard]] Result<KvEventBatch> parse_kv_events(std::span<const std::byte> payload);

/// The blocks that one engine says it holds. Which content a block holds is not known here: that
/// takes the engine's tokenizer. Their number is known, and that some went.
///
/// Threads  Not thread-safe.
class EngineBlocks {
 public:
  static constexpr std::size_t kMostBlocks = 262'144;

  struct Effect {
    bool cleared = false;
    double evicted_share = 0;  // of the tokens that were there
  };
  [[nodiscard]] Effect apply(const KvEventBatch& batch);
  void clear();

  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
  [[nodiscard]] double tokens() const { return tokens_; }

 private:
  struct Block {
    std::uint32_t tokens = 0;
    std::uint8_t media = 0;
  };
  void store(const KvEvent& event);
  /// The tokens that are nowhere any more.
  double remove(const KvEvent& event);

  std::unordered_map<std::uint64_t, Block> blocks_;
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
  [[nodiscard]] std::uint64_t expected() const { return next_.value_or(0); }
  void forget() { next_.reset(); }

 private:
  std::optional<std::uint64_t> next_;
};

}  // namespace afterimage
