// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>

#include "afterimage/encoder_cache.h"
#include "policy/eviction/lru.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

EncoderKey key(std::uint64_t n) {
  EncoderKey k;
  k.bytes[0] = static_cast<std::byte>(n);
  return k;
}

/// The obvious model: a list in order of use, without concern for speed.
class ModelCache {
 public:
  ModelCache(std::uint64_t rows, std::uint64_t entries) : rows_(rows), entries_(entries) {}

  bool find(std::uint64_t n) {
    const auto it = position(n);
    if (it == used_.end()) return false;
    used_.splice(used_.end(), used_, it);
    return true;
  }

  bool insert(std::uint64_t n, std::uint64_t rows) {
    if (rows > rows_) return false;
    std::list<Entry> kept = used_;
    kept.remove_if([&](const Entry& e) { return e.n == n; });
    auto it = kept.begin();
    while (sum(kept) + rows + doomed_rows(n) > rows_ || kept.size() + 1 > entries_) {
      while (it != kept.end() && pins_[it->n] > 0) ++it;
      if (it == kept.end()) return false;
      it = kept.erase(it);
    }
    if (pins_[n] > 0) doomed_ += rows_of(n);
    pins_[n] = 0;
    kept.push_back({n, rows});
    used_ = std::move(kept);
    return true;
  }

  void pin(std::uint64_t n) { ++pins_[n]; }
  void unpin(std::uint64_t n) { --pins_[n]; }
  void release_doomed(std::uint64_t rows) { doomed_ -= rows; }
  [[nodiscard]] std::uint64_t rows_of(std::uint64_t n) {
    const auto it = position(n);
    return it == used_.end() ? 0 : it->rows;
  }
  [[nodiscard]] std::vector<std::uint64_t> keys() const {
    std::vector<std::uint64_t> found;
    for (const Entry& e : used_) found.push_back(e.n);
    std::ranges::sort(found);
    return found;
  }
  [[nodiscard]] std::uint64_t used_rows() const { return sum(used_) + doomed_; }

 private:
  struct Entry {
    std::uint64_t n;
    std::uint64_t rows;
  };
  static std::uint64_t sum(const std::list<Entry>& entries) {
    std::uint64_t total = 0;
    for (const Entry& e : entries) total += e.rows;
    return total;
  }
  // Rows of removed entries that are still pinned, and of `n` if it is replaced while pinned.
  std::uint64_t doomed_rows(std::uint64_t n) { return doomed_ + (pins_[n] > 0 ? rows_of(n) : 0); }
  std::list<Entry>::iterator position(std::uint64_t n) {
    return std::ranges::find_if(used_, [&](const Entry& e) { return e.n == n; });
  }

  std::uint64_t rows_;
  std::uint64_t entries_;
  std::uint64_t doomed_ = 0;
  std::list<Entry> used_;  // least recently used first
  std::map<std::uint64_t, int> pins_;
};

struct Held {
  Pin pin;
  std::uint64_t n;
  std::uint64_t rows;
};

TEST(EncoderCacheProperty, AgreesWithAnObviousModel) {
  testing::for_each_seed(100, [](Rng& rng) {
    MemoryBudget budget(Bytes(40 * 64));
    EncoderCacheOptions options{.max_entries = EntryCount(8), .policy = std::make_unique<Lru>()};
    const auto cache = EncoderCache::create(std::move(options), budget).value();
    ModelCache model(40, 8);
    std::vector<Held> held;
    const auto let_go = [&](std::size_t which) {
      const Held& h = held[which];
      // If the entry was replaced while pinned, its rows are freed now.
      const auto present = cache->find(key(h.n));
      model.find(h.n);
      if (present.has_value() && present->slot() == h.pin.slot()) {
        model.unpin(h.n);
      } else {
        model.release_doomed(h.rows);
      }
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    };
    for (int step = 0; step < 300; ++step) {
      const std::uint64_t n = rng.below(12);
      switch (rng.below(4)) {
        case 0:
        case 1: {
          const std::uint64_t rows = rng.below(14);
          const std::vector<std::byte> bytes(rows * 64, static_cast<std::byte>(n));
          const TensorViews views = {TensorView::over(DType::kF32, Shape{rows, 16}, bytes).value()};
          ASSERT_EQ(cache->insert(key(n), views, {}).has_value(), model.insert(n, rows))
              << "step " << step;
          break;
        }
        case 2: {
          auto pin = cache->find(key(n));
          ASSERT_EQ(pin.has_value(), model.find(n)) << "step " << step;
          const bool one_hold_each = std::ranges::none_of(
              held, [&](const Held& h) { return pin.has_value() && h.pin.slot() == pin->slot(); });
          if (pin.has_value() && one_hold_each && held.size() < 3) {
            model.pin(n);
            held.push_back({*std::move(pin), n, model.rows_of(n)});
          }
          break;
        }
        default:
          if (!held.empty()) let_go(rng.below(held.size()));
      }
      cache->check_invariants();
      ASSERT_EQ(budget.used().value(), model.used_rows() * 64) << "step " << step;
      for (std::uint64_t k = 0; k < 12; ++k) {
        const bool there = std::ranges::binary_search(model.keys(), k);
        ASSERT_EQ(cache->info(key(k)).has_value(), there) << "key " << k << ", step " << step;
      }
    }
    held.clear();
  });
}

}  // namespace
}  // namespace afterimage
