// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "afterimage/ids.h"
#include "foundation/platform/huge_pages.h"

namespace afterimage {

/// Hash table of the children of all nodes of a PrefixTree, keyed by parent and first token.
///
/// A general-purpose flat map keeps metadata apart from its entries, which costs two dependent
/// cache misses. Here key, node index and label pointer share one cache line.
///
/// Shape    Open addressing, linear probing, load factor at most three quarters.
/// Threads  find is const and may run concurrently with itself.
/// Cost     32 bytes a slot, 43 to 85 a child.
class ChildTable {
 public:
  struct Child {
    std::uint64_t key = 0;
    const TokenId* label = nullptr;
    std::uint32_t length = 0;  // tokens; 0: the slot is free
    std::uint32_t node = 0;
  };

  /// nullptr: no such child. Valid until the next change.
  [[nodiscard]] const Child* find(std::uint64_t key) const {
    const Child& place = places_[place_of(key)];
    return place.length > 0 ? &place : nullptr;
  }
  /// Replaces a child with the same key. Requires length > 0.
  void put(const Child& child) {
    if ((size_ + 1) * 4 > places_.size() * 3) grow();
    Child& place = places_[place_of(child.key)];
    if (place.length == 0) ++size_;
    place = child;
  }
  void erase(std::uint64_t key) {
    std::size_t hole = place_of(key);
    if (places_[hole].length == 0) return;
    --size_;
    // Backward-shift deletion: entries displaced past the hole move back, so no probe ends early.
    for (std::size_t i = next(hole); places_[i].length > 0; i = next(i)) {
      const std::size_t wanted = home(places_[i].key);
      if (((i - wanted) & mask()) < ((i - hole) & mask())) continue;
      places_[hole] = places_[i];
      hole = i;
    }
    places_[hole] = Child{};
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t bytes() const { return places_.capacity() * sizeof(Place); }

 private:
  struct alignas(32) Place : Child {
    using Child::operator=;
  };
  using Places = std::vector<Place, HugePageAllocator<Place>>;

  [[nodiscard]] std::size_t mask() const { return places_.size() - 1; }
  [[nodiscard]] std::size_t next(std::size_t i) const { return (i + 1) & mask(); }
  [[nodiscard]] std::size_t home(std::uint64_t key) const {
    __extension__ using Wide = unsigned __int128;
    const Wide mixed = Wide{key} * 0x9E3779B97F4A7C15U;
    return (static_cast<std::uint64_t>(mixed) ^ static_cast<std::uint64_t>(mixed >> 64U)) & mask();
  }
  /// The slot that holds the key, or the free slot where it belongs.
  [[nodiscard]] std::size_t place_of(std::uint64_t key) const {
    std::size_t i = home(key);
    while (places_[i].length > 0 && places_[i].key != key) i = next(i);
    return i;
  }
  void grow() {
    const Places old = std::exchange(places_, Places(places_.size() * 2));
    for (const Place& place : old) {
      if (place.length > 0) places_[place_of(place.key)] = place;
    }
  }

  Places places_ = Places(16);  // size is a power of two
  std::size_t size_ = 0;
};

}  // namespace afterimage
