// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "afterimage/block_keys.h"
#include "afterimage/digest.h"
#include "afterimage/identity.h"
#include "afterimage/memory_budget.h"
#include "afterimage/prefix_cache.h"
#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/tier.h"
#include "afterimage/units.h"
#include "foundation/platform/mutex.h"
#include "storage/memory/load_or_compute.h"
#include "storage/memory/put_once.h"

namespace afterimage {

/// A prompt under the names that its prefixes have in a tier. Layout and sequence outlive it.
class ArchivedPrompt {
 public:
  /// `root` is the prefixes' namespace in `space`. kInvalidArgument: a layout or sequence that
  /// contradicts itself.
  static Result<ArchivedPrompt> of(const Namespace& space, const NamespaceId& root,
                                   const KvLayout& layout, const Sequence& sequence);

 private:
  friend class PrefixArchive;
  ArchivedPrompt(BlockChain chain, const KvLayout& layout, const Sequence& sequence,
                 std::vector<BlockKey> keys)
      : chain_(std::move(chain)), layout_(&layout), sequence_(&sequence), keys_(std::move(keys)) {}

  [[nodiscard]] std::uint32_t length() const {
    return static_cast<std::uint32_t>(sequence_->tokens.size());
  }
  /// Keys of the prefixes of [first, last] tokens, which end in one block.
  [[nodiscard]] std::vector<BlockKey> ends(std::uint32_t first, std::uint32_t last) const;
  [[nodiscard]] BlockKey end(std::uint32_t at) const { return ends(at, at).front(); }

  BlockChain chain_;
  const KvLayout* layout_;
  const Sequence* sequence_;
  std::vector<BlockKey> keys_;  // of the full blocks
};

/// Rows and snapshots that are missing in a tier: who makes them, for all who share it?
struct PrefillLease {
  TierKey turn;  // its name: that of the first block that is missing, which prompts that
                 // part later have in common
  TierKey last;  // what is put last
  Duration longest_wait{0};  // for another who makes it; 0: nobody knows what computing takes
};

/// KV in a tier below memory: kept when it is made, so that to evict it from memory moves no byte,
/// and found again by the longest prefix, also by a later process.
///
/// Shape    Rows of full groups in blocks of 128 tokens, the last one as long as it is, and as long
///          as it is behind each media item and at each snapshot, where prompts part; snapshots
///          whole. Each under the key of the prefix that it ends (docs/formats/block-keys.md).
/// Errors   None. What cannot be kept or read is computed again, and counted.
/// Threads  Any.
/// Cost     One SHA-256 of about 600 bytes a block of the prompt; and, where the blocks held end,
///          one for each position of a block. With windows or states, one for each position from
///          there back to the nearest snapshot.
class PrefixArchive {
 public:
  static constexpr TokenCount kBlock{128};
  static constexpr TokenCount kWorthATurn{32};

  /// Whether what was not there a moment ago may be there by now.
  enum class Look : unsigned char { kOnce, kAgain };

  /// Takes what was loaded into the cache; an error ends the loading.
  using Insert = std::function<Result<void>(const CapturedKv&)>;

  /// All outlive the archive. `transfer` pays for what is on its way up: half of it for what was
  /// read, half for the next read. `quicker` knows how far computing is; nullptr: whatever is there
  /// is loaded.
  PrefixArchive(Tier& tier, MemoryBudget& transfer, LoadOrCompute* quicker = nullptr)
      : tier_(tier), kept_(tier), transfer_(transfer), quicker_(quicker) {}

  /// The row that a run which resumes at `resume` should capture from, so that whole blocks can be
  /// kept.
  static TokenCount capture_from(TokenCount resume);

  /// Keeps what is neither there nor on its way. Rows before the first whole block are left out.
  void keep(const ArchivedPrompt& prompt, const CapturedKv& kv);

  /// Loads what would let a request resume beyond `resume`, and hands it to `insert` in order of
  /// position; or as much of it as is expected to be loaded sooner than computed. Memory has the
  /// first `matched` tokens. True: something was inserted. Ends early,
  /// after the read that is under way, if `stop` is requested.
  bool promote(const ArchivedPrompt& prompt, TokenCount matched, TokenCount resume,
               const Insert& insert, const std::stop_token& stop = {}, Look look = Look::kOnce);

  /// What whoever resumes at `resume` would prefill for other processes, too; its snapshots will
  /// stand at `snapshots`. nullopt: nothing that another should wait for. Less than kWorthATurn
  /// tokens are missing, or no whole block that could name it is, or loading is expected to take
  /// longer than computing.
  [[nodiscard]] std::optional<PrefillLease> duty(const ArchivedPrompt& prompt, TokenCount resume,
                                                 std::span<const TokenCount> snapshots) const;

  [[nodiscard]] PrefixArchiveStats stats() const;

 private:
  /// What the tier holds of a prompt, beyond what memory has.
  struct Held {
    std::uint32_t rows_end = 0;  // rows up to here, in blocks; the last may be shorter
    std::optional<std::uint32_t> snapshot;
  };
  /// What of it is loaded.
  struct Chosen {
    Held held;
    LoadStep step;  // all of it in one
    LoadChoice choice;
  };

  [[nodiscard]] Held held(const ArchivedPrompt& prompt, std::uint32_t matched, std::uint32_t resume,
                          Look look) const;
  [[nodiscard]] std::uint32_t rows_end(const ArchivedPrompt& prompt, std::uint32_t matched,
                                       Look look) const;
  [[nodiscard]] std::optional<std::uint32_t> block_end(const ArchivedPrompt& prompt,
                                                       std::uint32_t from, Look look) const;
  [[nodiscard]] std::optional<std::uint32_t> last_snapshot(const ArchivedPrompt& prompt,
                                                           std::uint32_t from, std::uint32_t beyond,
                                                           Look look) const;
  /// nullopt: nothing.
  std::optional<Chosen> choose(const ArchivedPrompt& prompt, std::uint32_t matched,
                               std::uint32_t resume, const Held& held);
  /// What there is to load, in the order in which it serves: each block by itself, or, where only
  /// the snapshot behind them serves, all of them and the snapshot at once.
  [[nodiscard]] std::vector<LoadStep> steps(const ArchivedPrompt& prompt, std::uint32_t matched,
                                            std::uint32_t resume, const Held& held) const;
  std::optional<TierEntry> read(const TierKey& key, const Chosen& chosen);
  std::vector<Result<std::optional<TierEntry>>> read_all(std::span<const TierKey> keys,
                                                         const Chosen& chosen);
  [[nodiscard]] std::vector<std::uint32_t> next_ends(const ArchivedPrompt& prompt,
                                                     std::uint32_t from, std::uint32_t to) const;
  /// For a tier that is far away: all of them in one question.
  void probe(std::span<const BlockKey> keys, TierKey (*place)(const BlockKey& key),
             Look look) const;
  /// Rows [from, chosen.held.rows_end) or less of them; how far it came.
  std::uint32_t load_rows(const ArchivedPrompt& prompt, std::uint32_t from, const Chosen& chosen,
                          const Insert& insert, const std::stop_token& stop);
  bool load_snapshot(const ArchivedPrompt& prompt, const Chosen& chosen, const Insert& insert);
  void put(const TierKey& key, const TensorViews& views, Duration cost);

  Tier& tier_;
  PutOnce kept_;
  MemoryBudget& transfer_;
  LoadOrCompute* const quicker_;
  mutable Mutex mutex_;
  PrefixArchiveStats stats_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
