// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>

#include "afterimage/platform/mutex.h"
#include "afterimage/prefix/prefix_cache.h"

namespace afterimage {

struct PrefillOnceOptions {
  /// Recompute the checksums at every hit; what is damaged is dropped, counted and computed again.
  bool verify_hits = true;
};

/// The prefix cache for many threads.
///
/// Errors   As PrefixCache says.
/// Threads  Any. One lock, held while the tree is walked (microseconds), never while bytes are
/// copied or
///          checked.
/// Source   src/prefix/DESIGN.md.
class PrefillOnce final : private PrefixOwner {
 public:
  /// `cache` outlives the front, and nobody else touches it while the front stands.
  explicit PrefillOnce(PrefixCache& cache, PrefillOnceOptions options = {});
  /// Nobody holds a match any more.
  ~PrefillOnce();
  PrefillOnce(const PrefillOnce&) = delete;
  PrefillOnce& operator=(const PrefillOnce&) = delete;

  /// A match whose bytes are intact, or a miss.
  [[nodiscard]] Result<PrefixMatch> match(const NamespaceId& space, const Sequence& prompt);
  /// Requires match.holds(). Bytes stay valid, unchanged and readable without a lock while it
  /// lives.
  [[nodiscard]] CachedKv kv(const PrefixMatch& match) const;
  /// Copies in what is not cached yet. Whoever stores the same at the same time stores it once.
  Result<PrefixInsertion> insert(const NamespaceId& space, const KvLayout& layout,
                                 const Sequence& sequence, const CapturedKv& kv);

  [[nodiscard]] Result<PrefixExplanation> explain(const NamespaceId& space,
                                                  const Sequence& prompt) const;
  bool erase(const NamespaceId& space);
  void clear();
  Bytes shed(Bytes wanted);
  [[nodiscard]] PrefixCacheStats stats() const;
  void check_invariants() const;

 private:
  void let_go(const PrefixHold& hold) override;

  mutable Mutex mutex_;
  const PrefillOnceOptions options_;
  PrefixCache& cache_ AFI_GUARDED_BY(mutex_);
  std::uint64_t held_ AFI_GUARDED_BY(mutex_) = 0;
};

}  // namespace afterimage
