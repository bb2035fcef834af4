// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "afterimage/engine.h"
#include "afterimage/reuse.h"
#include "afterimage/reuse_stats.h"
#include "foundation/platform/mutex.h"
#include "foundation/types/digest_hash.h"

namespace afterimage {

/// A lower bound, at 95 % and valid at any time, of the share of answer tokens that differ, after
/// `same` that did not and `other` that did.
/// Source   Robbins' mixture martingale, as caches/similarity/acceptance.h.
[[nodiscard]] double loss_at_least(std::uint64_t same, std::uint64_t other);

/// Exact KV of images, kept to be used at other positions: it never enters the exact caches, and
/// nothing that was computed from it comes here. Counts what its use costs, and turns it off.
///
/// Unit     Bytes of rows; the item used least recently leaves first.
/// Threads  Any. One lock; rows are copied outside it.
/// Source   docs/decisions/0035-media-kv-at-other-positions.md
class MovedMediaCache {
 public:
  struct Item {
    TokenPlace from{};                         // of its first token
    TokenCount length{};                       // tokens
    std::vector<std::vector<std::byte>> rows;  // of each group
    [[nodiscard]] Bytes size() const;
    /// For a run; refers to this item.
    [[nodiscard]] MovedMedia moved(std::size_t span, TokenCount recomputed) const;
  };

  explicit MovedMediaCache(MovedMediaOptions options) : options_(std::move(options)) {}

  /// Whether KV of this origin may be moved: it is certified, and the samples say nothing else.
  [[nodiscard]] bool serves(const KvOrigin& origin) const;
  [[nodiscard]] TokenCount recomputed() const { return options_.recomputed; }

  /// nullptr: not here.
  [[nodiscard]] std::shared_ptr<const Item> find(const NamespaceId& space, const MediaSpan& span);
  /// Copies the span's rows of `kv`, which has them and is exact, unless the item is here already or
  /// larger than the capacity.
  void keep(const NamespaceId& space, const MediaSpan& span, const TokenPlace& from,
            const KvSlice& kv);

  /// Returns how many items it erased.
  std::uint64_t erase_spaces(const std::function<bool(const NamespaceId&)>& which);

  /// Counts a bounded answer. True: compare() it with an exact one.
  bool count(const Completion& bounded);
  void compare(const Completion& bounded, const Completion& exact);
  [[nodiscard]] MovedMediaStats stats() const;

 private:
  struct Key {
    NamespaceId space;
    ContentDigest content;
    TokenCount length;
    std::uint32_t columns = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return DigestHash()(key.content) ^ DigestHash()(key.space);
    }
  };
  struct Entry {
    Key key;
    std::shared_ptr<const Item> item;
  };
  using Entries = std::list<Entry>;  // most recently used first

  static Key key_of(const NamespaceId& space, const MediaSpan& span) {
    return {
        .space = space, .content = span.content, .length = span.length, .columns = span.columns};
  }
  void remove(Entries::iterator entry) AFI_REQUIRES(mutex_);

  MovedMediaOptions options_;
  mutable Mutex mutex_;
  Entries entries_ AFI_GUARDED_BY(mutex_);
  boost::unordered_flat_map<Key, Entries::iterator, KeyHash> by_key_ AFI_GUARDED_BY(mutex_);
  Bytes used_ AFI_GUARDED_BY(mutex_);
  bool on_ AFI_GUARDED_BY(mutex_) = true;
  std::uint64_t answers_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t tokens_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t samples_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t same_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t other_ AFI_GUARDED_BY(mutex_) = 0;
};

}  // namespace afterimage
