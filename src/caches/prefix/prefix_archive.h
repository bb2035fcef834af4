// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/identity.h"
#include "afterimage/memory_budget.h"
#include "afterimage/prefix_cache.h"
#include "afterimage/result.h"
#include "afterimage/sequence.h"
#include "afterimage/tier.h"
#include "afterimage/units.h"
#include "caches/identity/block_keys.h"
#include "foundation/platform/mutex.h"
#include "storage/memory/load_or_compute.h"
#include "storage/memory/put_once.h"

namespace afterimage {

/// A prompt with the tier keys of its prefixes. Layout and sequence must outlive it.
class ArchivedPrompt {
 public:
  /// `root` is the prefix namespace in `space`. kInvalidArgument: a layout or sequence that
  /// contradicts itself.
  static Result<ArchivedPrompt> of(const Namespace& space, const NamespaceId& root,
                                   const KvLayout& layout, const Sequence& sequence);

 private:
  friend class PrefixArchive;
  ArchivedPrompt(const Namespace& space, BlockChain chain, const KvLayout& layout,
                 const Sequence& sequence, std::vector<BlockKey> keys)
      : space_(space),
        chain_(std::move(chain)),
        layout_(&layout),
        sequence_(&sequence),
        keys_(std::move(keys)) {}

  [[nodiscard]] std::uint32_t length() const {
    return static_cast<std::uint32_t>(sequence_->tokens.size());
  }
  /// Keys of the prefixes of first to last tokens, all of which end in the same block.
  [[nodiscard]] std::vector<BlockKey> ends(std::uint32_t first, std::uint32_t last) const;
  [[nodiscard]] BlockKey end(std::uint32_t at) const { return ends(at, at).front(); }
  /// Of each media item, in order.
  [[nodiscard]] std::vector<EntryLabel> media_labels() const;
  /// Of KV that depends on the first `end` tokens.
  [[nodiscard]] std::vector<EntryLabel> labels(std::uint32_t end,
                                               std::span<const EntryLabel> media) const;

  Namespace space_;
  BlockChain chain_;
  const KvLayout* layout_;
  const Sequence* sequence_;
  std::vector<BlockKey> keys_;  // of the full blocks
};

/// The lease under which one process prefills KV that the shared tier lacks.
struct PrefillLease {
  TierKey turn;  // the lease's key: the first missing block, which prompts that diverge later share
  TierKey last;  // the entry that the leader writes last
  Duration longest_wait{0};  // for the leader's result; 0: the cost of computing is unknown
};

/// KV in a tier below memory. KV is written when it is computed, if prompts return often enough, so that
/// evicting it from memory moves no bytes; look-ups find the longest stored prefix, also in a later
/// process.
///
/// Shape    Rows of full groups in blocks of 128 tokens. A shorter block ends at the sequence's
///          end, after each media item and at each snapshot, where prompts tend to diverge.
///          Snapshots are stored whole. Each entry's key is that of the prefix that it ends
///          (docs/formats/block-keys.md).
/// Errors   None. What cannot be written or read is recomputed, and counted.
/// Threads  Any.
/// Cost     One SHA-256 of about 600 bytes per block of the prompt, and one per position of the
///          block in which the stored rows end. With sliding or recurrent groups, one per position
///          from there back to the nearest snapshot.
class PrefixArchive {
 public:
  static constexpr TokenCount kBlock{128};
  static constexpr TokenCount kMinLeaseTokens{32};  // fewer are prefilled without a lease

  /// kAgain: invalidate cached negative look-ups first, because another process may have written.
  enum class Look : unsigned char { kOnce, kAgain };

  /// Inserts loaded KV into the cache, which may keep the memory that it lies in; an error ends the
  /// loading.
  using Insert = std::function<Result<void>(const KvSlice&, std::vector<LoadedKv>)>;

  /// All arguments must outlive the archive. `transfer` is charged for bytes being promoted: half
  /// for the blocks that were read, a quarter for the next read. `load_or_compute` decides what is
  /// faster to compute than to load; nullptr: everything found is loaded. `admission` decides whether a
  /// prompt with new blocks is worth a write; nullptr: each is.
  PrefixArchive(Tier& tier, MemoryBudget& transfer, LoadOrCompute* load_or_compute = nullptr,
                WriteAdmission* admission = nullptr)
      : tier_(tier),
        put_once_(tier),
        transfer_(transfer),
        load_or_compute_(load_or_compute),
        admission_(admission) {}

  /// The first row that a run resuming at `resume` should capture, so that whole blocks are stored.
  static TokenCount capture_from(TokenCount resume);

  /// A request asks for this prompt: what it continues has returned, wherever its KV is.
  void note_request(const ArchivedPrompt& prompt);

  /// Writes what is neither stored nor being written. Skips rows before the first whole block.
  void keep(const ArchivedPrompt& prompt, const KvSlice& kv);

  /// Loads what lets a request resume beyond `resume` and passes it to `insert` in order of
  /// position; stops where computing is expected to be faster. Memory has the first `matched`
  /// tokens. True: something was inserted. After a stop request it returns as soon as the current
  /// read is done.
  bool promote(const ArchivedPrompt& prompt, TokenCount matched, TokenCount resume,
               const Insert& insert, const std::stop_token& stop = {}, Look look = Look::kOnce);

  /// The lease to take before prefilling from `resume` on behalf of other processes; snapshots will
  /// stand at `snapshots`. nullopt: no other process should wait, because fewer than
  /// kMinLeaseTokens tokens are missing, no whole block is missing that could name the lease, or
  /// loading is expected to be slower than computing.
  [[nodiscard]] std::optional<PrefillLease> prefill_lease(
      const ArchivedPrompt& prompt, TokenCount resume, std::span<const TokenCount> snapshots) const;

  [[nodiscard]] PrefixArchiveStats stats() const;

 private:
  /// What the tier holds of a prompt beyond what memory has.
  struct Held {
    std::uint32_t rows_end = 0;  // rows up to here, in blocks; the last block may be shorter
    std::optional<std::uint32_t> snapshot;
  };
  /// The part of it to load.
  struct Chosen {
    Held held;
    LoadStep step;  // the sum of the chosen steps
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
  /// nullopt: load nothing.
  std::optional<Chosen> choose(const ArchivedPrompt& prompt, std::uint32_t matched,
                               std::uint32_t resume, const Held& held);
  /// Steps to load, in the order in which they become useful: single blocks, or, if only the
  /// snapshot after them is useful, all blocks and the snapshot as one step.
  [[nodiscard]] std::vector<LoadStep> steps(const ArchivedPrompt& prompt, std::uint32_t matched,
                                            std::uint32_t resume, const Held& held) const;
  std::vector<Result<std::optional<TierEntry>>> read_all(std::span<const TierKey> keys,
                                                         const Chosen& chosen);
  [[nodiscard]] std::vector<std::uint32_t> next_ends(const ArchivedPrompt& prompt,
                                                     std::uint32_t from, std::uint32_t to) const;
  /// Asks a remote tier about all keys in one round trip.
  void probe(std::span<const BlockKey> keys, TierKey (*key_of)(const BlockKey& key),
             Look look) const;
  /// Loads rows [from, chosen.held.rows_end), or fewer; returns the end of the loaded rows.
  std::uint32_t load_rows(const ArchivedPrompt& prompt, std::uint32_t from, const Chosen& chosen,
                          const Insert& insert, const std::stop_token& stop, bool& lacks_memory);
  bool load_snapshot(const ArchivedPrompt& prompt, const Chosen& chosen, const Insert& insert,
                     bool& lacks_memory);
  /// Whether a prompt whose KV [kv.begin, kv.end) was computed is worth a write: prompts are told
  /// apart by the last of their whole blocks. One without a new block is.
  static std::vector<TierKey> whole_blocks(const ArchivedPrompt& prompt, TokenCount end);
  [[nodiscard]] bool admits(const ArchivedPrompt& prompt, const KvSlice& kv);
  void put(const TierKey& key, const TensorViews& views, Duration cost,
           std::vector<EntryLabel> labels);

  Tier& tier_;
  PutOnce put_once_;
  MemoryBudget& transfer_;
  LoadOrCompute* const load_or_compute_;
  WriteAdmission* const admission_;
  mutable Mutex mutex_;
  PrefixArchiveStats stats_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
