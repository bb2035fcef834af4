// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <vector>

#include "afterimage/memory_budget.h"
#include "afterimage/prefix_cache.h"

namespace afterimage {

/// A pending insertion: its size, then its reservations, then its bytes. Move-only; dropping it
/// releases the reservations and the pin on the prefix it extends.
class [[nodiscard]] PrefixCache::Draft {
 public:
  [[nodiscard]] Bytes bytes() const;

 private:
  friend class PrefixCache;
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
  explicit Draft(PrefixMatch base) : base_(std::move(base)) {}
  [[nodiscard]] std::uint64_t new_tokens() const {
    return covered_ > base_.matched() ? (covered_ - base_.matched()).value() : 0;
  }
  /// Copies rows [from, to) in pieces, or takes over `loaded` if that has little else.
  void add_rows(const KvLayout& layout, TokenCount from, TokenCount to, LoadedKv* loaded);

  PrefixMatch base_;  // pins the prefix that the draft extends
  TokenCount covered_{};
  std::uint64_t ends_ = 0;  // leaf sequences that it adds
  Duration cost_{0};
  std::vector<Part> pieces_;
  std::vector<Part> snapshots_;
  std::vector<LoadedKv> copied_from_;  // keeps alive what fill() copies
};

}  // namespace afterimage
