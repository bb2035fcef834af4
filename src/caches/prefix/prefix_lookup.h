// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "afterimage/kv.h"
#include "caches/prefix/prefix_entries.h"
#include "caches/prefix/resume_point.h"

namespace afterimage {

/// What is cached along the path that one query matched. Reused between queries, so that a warm
/// look-up allocates nothing.
class PrefixLookup {
 public:
  void collect(const PrefixEntries& entries, const KvLayout& layout, PrefixTree::Walk walk);

  [[nodiscard]] std::span<const GroupAvailability> availability() const { return groups_; }
  /// The longest legal length that a single snapshot can serve, if the layout needs snapshots.
  struct Found {
    TokenCount resume{};
    std::optional<std::uint32_t> snapshot;
  };
  [[nodiscard]] Found best(const PrefixEntries& entries, const KvLayout& layout,
                           ResumeQuery query) const;

 private:
  void offer(const PrefixEntries& entries, const KvLayout& layout, std::uint32_t snapshot);

  std::vector<GroupAvailability> groups_;
  std::vector<std::vector<RowRange>> rows_;  // by group
  std::vector<TokenCount> states_;
  std::vector<std::uint32_t> snapshots_;
  std::vector<NodeIndex> path_;
};

}  // namespace afterimage
