// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace afterimage {

/// Numbers above 0 by prints. Flat: what a look-up in a large table costs is to fetch its memory, and here
/// it is fetched once.
///
/// Memory   16 bytes an entry, and between a third and three times as much that is free.
/// Threads  One at a time.
class PrintTable {
 public:
  /// `secret`: who chooses prints cannot choose where they stand.
  explicit PrintTable(std::uint64_t secret) : factor_(secret | 1U) {}

  /// 0: it is not there.
  [[nodiscard]] std::uint64_t find(std::uint64_t print) const;
  [[nodiscard]] bool contains(std::uint64_t print) const { return find(print) != 0; }
  /// Instead of the number that it had.
  void set(std::uint64_t print, std::uint64_t number);
  /// Only if it has this number.
  void erase(std::uint64_t print, std::uint64_t number);
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Calls `visit(print, number)` for each.
  void for_each(const auto& visit) const {
    for (const Entry& entry : entries_) {
      if (entry.number != 0) visit(entry.print, entry.number);
    }
  }
  void check_invariants() const;

 private:
  struct Entry {
    std::uint64_t print = 0;
    std::uint64_t number = 0;  // 0: the place is free
  };

  [[nodiscard]] std::size_t home_of(std::uint64_t print) const {
    return static_cast<std::size_t>((print * factor_) >> shift_);
  }
  [[nodiscard]] std::size_t after(std::size_t place) const {
    return (place + 1) & (entries_.size() - 1);
  }
  /// Where it is, or the free place behind its home. Requires a free place.
  [[nodiscard]] std::size_t place_of(std::uint64_t print) const;
  void resize(std::size_t places);

  std::uint64_t factor_;
  unsigned shift_ = 0;
  std::size_t size_ = 0;
  std::vector<Entry> entries_;  // none, or a power of two, with a free one
};

}  // namespace afterimage
