// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <vector>

#include "afterimage/memory_budget.h"
#include "afterimage/prefix_cache.h"

namespace afterimage {

/// A pending insertion: its size, then its reservations, then its bytes. Move-only; dropping it
/// releases the reservations and the pin on the prefix it extends, under the cache's lock.
struct PrefixCache::Draft {
  struct Part {
    Bytes bytes;
    Reservation reservation;
    std::optional<Payload> payload;
    TokenCount at{};                 // pieces: the first row; snapshots: the position
    TokenCount rows{};               // pieces only
    std::optional<LoadedKv> loaded;  // instead of a copy
    std::size_t snapshot = 0;        // snapshots: index in the capture
    std::uint32_t serves_from = 0;   // snapshots: the shortest length that the windows serve
  };
  explicit Draft(PrefixMatch its_base) : base(std::move(its_base)) {}
  [[nodiscard]] Bytes bytes() const;
  [[nodiscard]] std::uint64_t new_tokens() const {
    return covered > base.matched() ? (covered - base.matched()).value() : 0;
  }
  /// Copies rows [from, to) in pieces, or takes over `loaded` if that has little else.
  void add_rows(const KvLayout& layout, TokenCount from, TokenCount to, LoadedKv* loaded);

  PrefixMatch base;  // pins the prefix that the draft extends
  TokenCount covered{};
  std::uint64_t ends = 0;  // leaf sequences that it adds
  Duration cost{0};
  std::vector<Part> pieces;
  std::vector<Part> snapshots;
  std::vector<LoadedKv> copied_from;  // keeps alive what fill() copies
};

}  // namespace afterimage
