// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "afterimage/prefix_cache.h"
#include "afterimage/sequence.h"
#include "foundation/types/digest_hash.h"
#include "gateway/kv_publisher/kv_batch.h"
#include "gateway/prompts/content_chain.h"

namespace afterimage {

/// A prompt as the prefix cache knows it.
struct HeldPrompt {
  NamespaceId space = {};
  Sequence sequence = {};
};

struct HeldLimits {
  std::size_t records = 2048;
  std::size_t links = 65'536;  // of all records
};

/// Which links of which requests' chains are in the prefix cache of this process. The cache knows
/// tokens and no chains, so the last requests are remembered, and asked about again when something was
/// evicted. A link counts as held while the tokens of some remembered request up to its end are.
///
/// Threads  Not thread-safe.
class HeldContent {
 public:
  /// How many tokens of the prompt, from its beginning, are cached.
  using Matched = std::function<std::uint64_t(const HeldPrompt&)>;

  HeldContent(HeldLimits limits, Matched matched) : limits_(limits), matched_(std::move(matched)) {}

  /// A request was served. Writes what is new into `batch`, and what had to be dropped for it.
  void add(const ContentChain& chain, std::shared_ptr<const HeldPrompt> prompt, KvBatch& batch);
  /// Something was evicted: asks about all requests again.
  void check(KvBatch& batch);
  /// All that is held, a link after the one before it.
  void write_all(KvBatch& batch) const;

  [[nodiscard]] std::size_t links() const { return counts_.size(); }
  [[nodiscard]] std::size_t records() const { return records_.size(); }

 private:
  struct Record {
    std::vector<HeldLink> links;
    std::vector<std::uint64_t> ends;  // tokens of the prompt until each link's end
    std::shared_ptr<const HeldPrompt> prompt;
    std::size_t held = 0;  // of its links, from the first
  };
  using Records = std::list<Record>;  // the most recent first

  [[nodiscard]] std::size_t held_now(const Record& record) const;
  void set_held(Record& record, std::size_t held, KvBatch& batch);
  Records::iterator drop(Records::iterator record, KvBatch& batch);

  const HeldLimits limits_;
  const Matched matched_;
  Records records_;
  std::unordered_map<ChainKey, Records::iterator, DigestHash> by_end_;  // by their last key
  std::unordered_map<ChainKey, std::uint32_t, DigestHash> counts_;      // records that hold a link
  std::size_t remembered_ = 0;                                          // links of all records
};

}  // namespace afterimage
