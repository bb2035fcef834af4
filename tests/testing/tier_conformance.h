// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "afterimage/tier.h"
#include "testing/seeds.h"
#include "testing/tier_entries.h"

/// What every Tier guarantees. To run the suite on your own implementation:
///
///   const TierFactory kMine{"mine", [](Bytes capacity) { return make_mine(capacity); }};
///   INSTANTIATE_TEST_SUITE_P(Mine, TierConformance, ::testing::Values(kMine));
namespace afterimage::testing {

struct TierFactory {
  std::string name;
  /// An empty tier of about this capacity. Everything it uses lives as long as the pointer.
  std::function<std::shared_ptr<Tier>(Bytes)> make;
  /// False: the store behind the tier evicts entries without telling the tier.
  bool evicts = true;
};

class TierConformance : public ::testing::TestWithParam<TierFactory> {
 protected:
  void put(std::uint64_t n, std::size_t size, const EntryMeta& meta = {}) {
    const auto done = tier->put(tier_key(n), meta, tier_bytes(n, size));
    ASSERT_TRUE(done.has_value()) << to_string(done.error());
  }
  /// Flushes first, because some tiers make an entry visible only then.
  std::optional<TierEntry> get(const TierKey& key) {
    EXPECT_TRUE(tier->flush().has_value());
    auto found = tier->get(key, room);
    EXPECT_TRUE(found.has_value());
    return found.value_or(std::nullopt);
  }
  bool holds(std::uint64_t n, std::size_t size) {
    const auto entry = get(tier_key(n));
    return entry && std::ranges::equal(entry->bytes, tier_bytes(n, size));
  }

  MemoryBudget room{64_MiB};
  std::shared_ptr<Tier> tier = GetParam().make(16_MiB);
};

TEST_P(TierConformance, AMissIsANormalAnswer) {
  EXPECT_EQ(get(tier_key(1)), std::nullopt);
  EXPECT_FALSE(tier->may_contain(tier_key(1)));
  EXPECT_EQ(tier->stats().misses, 1U);
}

TEST_P(TierConformance, ReturnsEntriesByteForByte) {
  std::uint64_t n = 0;
  for (const std::size_t size :
       {0U, 1U, 63U, 64U, 3'900U, 4'095U, 4'096U, 4'097U, 65'536U, 1'048'577U}) {
    const EntryMeta meta{.tensors = {{DType::kBF16, Shape{size}}, {DType::kU8, Shape{}}},
                         .cost = Duration(12'345 + n),
                         .labels = {EntryLabel(n), EntryLabel(~n)}};
    put(++n, size, meta);
    const auto entry = get(tier_key(n));
    ASSERT_TRUE(entry.has_value()) << size;
    EXPECT_EQ(entry->meta, meta) << size;
    EXPECT_TRUE(std::ranges::equal(entry->bytes, tier_bytes(n, size))) << size;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(entry->bytes.data()) % 64, 0U) << size;
  }
}

// Otherwise content stored by its name would be put again.
TEST_P(TierConformance, APutEntryIsStoredOrPending) {
  EXPECT_FALSE(tier->is_pending(tier_key(1)));
  ASSERT_TRUE(tier->put(tier_key(1), {}, tier_bytes(1, 5'000)).has_value());
  EXPECT_TRUE(tier->is_pending(tier_key(1)) || tier->may_contain(tier_key(1)));
  ASSERT_TRUE(tier->flush().has_value());
  EXPECT_TRUE(tier->may_contain(tier_key(1)));
  EXPECT_FALSE(tier->is_pending(tier_key(1)));
}

TEST_P(TierConformance, MetadataMatchesTheEntry) {
  EXPECT_FALSE(tier->metadata(tier_key(1)).has_value());
  put(1, 50'000, {.tensors = {}, .cost = Duration(12'345)});
  ASSERT_TRUE(tier->flush().has_value());
  const auto metadata = tier->metadata(tier_key(1));
  if (!metadata.has_value()) return;  // optional for a tier
  EXPECT_GE(metadata->bytes, Bytes(50'000));
  EXPECT_LE(metadata->bytes, Bytes(2 * 50'000));
  EXPECT_TRUE(metadata->cost == Duration(12'345) || metadata->cost == Duration(0));
  ASSERT_TRUE(tier->erase(tier_key(1)).has_value());
  EXPECT_FALSE(tier->metadata(tier_key(1)).has_value());
}

TEST_P(TierConformance, CopiesOnPutAndOnGet) {
  std::vector<std::byte> mine = tier_bytes(1, 5'000);
  ASSERT_TRUE(tier->put(tier_key(1), {}, mine).has_value());
  mine[0] ^= std::byte{1};
  const auto entry = get(tier_key(1));
  ASSERT_TRUE(entry.has_value());
  ASSERT_TRUE(tier->erase(tier_key(1)).has_value());
  EXPECT_TRUE(std::ranges::equal(entry->bytes, tier_bytes(1, 5'000)));
}

TEST_P(TierConformance, AnEntryInPiecesIsStoredAsOne) {
  const std::vector<std::byte> whole = tier_bytes(1, 70'001);
  const std::span<const std::byte> bytes = whole;
  const std::vector<std::span<const std::byte>> pieces = {
      bytes.first(1), bytes.subspan(1, 0), bytes.subspan(1, 4'095), bytes.subspan(4'096)};
  const EntryMeta meta{.tensors = {{DType::kU8, Shape{70'001}}}, .cost = Duration(5)};
  ASSERT_TRUE(tier->put_pieces(tier_key(1), meta, pieces).has_value());
  ASSERT_TRUE(tier->put_pieces(tier_key(2), meta, {}).has_value());
  const auto entry = get(tier_key(1));
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->meta, meta);
  EXPECT_TRUE(std::ranges::equal(entry->bytes, whole));
  EXPECT_TRUE(holds(2, 0));
}

// Caches keep the memory, and encryption writes to it.
TEST_P(TierConformance, WhatAGetReturnsIsItsReadersAlone) {
  put(1, 5'000);
  const auto first = get(tier_key(1));
  const auto second = get(tier_key(1));
  ASSERT_TRUE(first.has_value() && second.has_value());
  std::ranges::fill(first->memory->bytes(), std::byte{0xEE});
  EXPECT_TRUE(std::ranges::equal(second->bytes, tier_bytes(1, 5'000)));
  EXPECT_TRUE(holds(1, 5'000));
}

TEST_P(TierConformance, PuttingAgainReplaces) {
  put(1, 5'000);
  ASSERT_TRUE(tier->put(tier_key(1), {}, tier_bytes(2, 7'000)).has_value());
  const auto entry = get(tier_key(1));
  ASSERT_TRUE(entry.has_value());
  EXPECT_TRUE(std::ranges::equal(entry->bytes, tier_bytes(2, 7'000)));
  EXPECT_EQ(tier->stats().entries, EntryCount(1));
}

TEST_P(TierConformance, EveryBitOfTheKeyAndItsClassMatters) {
  put(1, 100);
  for (std::size_t bit = 0; bit < 256; ++bit) {
    TierKey other = tier_key(1);
    other.bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_EQ(get(other), std::nullopt) << bit;
  }
  EXPECT_EQ(get(tier_key(1, EntryClass::kAnswer)), std::nullopt);
  EXPECT_TRUE(holds(1, 100));
}

TEST_P(TierConformance, AnErasedEntryIsGoneUntilItIsPutAgain) {
  put(1, 100);
  put(2, 100);
  ASSERT_TRUE(tier->erase(tier_key(1)).has_value());
  EXPECT_TRUE(tier->erase(tier_key(3)).has_value()) << "erasing a missing entry succeeds";
  EXPECT_EQ(get(tier_key(1)), std::nullopt);
  EXPECT_TRUE(holds(2, 100));
  EXPECT_EQ(tier->stats().erased, 1U);
  put(1, 200);
  EXPECT_TRUE(holds(1, 200));
}

TEST_P(TierConformance, ErasesTheEntriesThatHaveALabel) {
  constexpr std::size_t kLarge = 1'500'000;
  put(1, 100, {.labels = {EntryLabel(1), EntryLabel(7)}});
  put(2, 5'000, {.labels = {EntryLabel(2), EntryLabel(7)}});
  put(3, kLarge, {.labels = {EntryLabel(7), EntryLabel(1)}});
  put(4, kLarge, {.labels = {EntryLabel(2)}});
  EntryMeta deep{.labels = {EntryLabel(3)}};
  deep.tensors.assign(140, TensorSpec{DType::kF16, Shape{1, 2}});
  put(5, 100, deep);
  const auto erased = tier->erase_matching({.any_of = {EntryLabel(9), EntryLabel(1)}});
  ASSERT_TRUE(erased.has_value()) << to_string(erased.error());
  EXPECT_EQ(*erased, EntryCount(2));
  EXPECT_EQ(tier->stats().erased, 2U);
  EXPECT_EQ(get(tier_key(1)), std::nullopt);
  EXPECT_EQ(get(tier_key(3)), std::nullopt);
  EXPECT_TRUE(holds(2, 5'000));
  EXPECT_TRUE(holds(4, kLarge));
  EXPECT_TRUE(holds(5, 100));
  EXPECT_EQ(tier->erase_matching({.any_of = {EntryLabel(1)}}), EntryCount(0));
  EXPECT_EQ(tier->erase_matching({.any_of = {EntryLabel(3)}}), EntryCount(1));
  put(1, 100);
  EXPECT_TRUE(holds(1, 100));
}

TEST_P(TierConformance, AnEntryWithoutLabelsIsErasedWithAny) {
  put(1, 100);
  put(2, 100, {.labels = {EntryLabel(2)}});
  EXPECT_EQ(tier->erase_matching({.any_of = {EntryLabel(1)}}), EntryCount(1));
  EXPECT_EQ(get(tier_key(1)), std::nullopt);
  EXPECT_TRUE(holds(2, 100));
  EXPECT_EQ(tier->erase_matching({}), EntryCount(1)) << "an empty filter matches every entry";
  EXPECT_EQ(get(tier_key(2)), std::nullopt);
}

TEST_P(TierConformance, ErasesWhatIsBeingWritten) {
  for (std::uint64_t n = 1; n <= 20; ++n) {
    ASSERT_TRUE(tier->put(tier_key(n), {.labels = {EntryLabel(n % 2)}}, tier_bytes(n, 100'000))
                    .has_value());
  }
  EXPECT_EQ(tier->erase_matching({.any_of = {EntryLabel(1)}}), EntryCount(10));
  for (std::uint64_t n = 1; n <= 20; ++n) EXPECT_EQ(holds(n, 100'000), n % 2 == 0) << n;
}

TEST_P(TierConformance, WithoutMemoryForTheCopyTheEntryStays) {
  put(1, 100'000);
  ASSERT_TRUE(tier->flush().has_value());
  MemoryBudget narrow(1_KiB);
  const auto refused = tier->get(tier_key(1), narrow);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoSpace);
  EXPECT_TRUE(holds(1, 100'000));
}

TEST_P(TierConformance, AnOversizedEntryIsRefusedAndEvictsNothing) {
  put(1, 100);
  const auto refused = tier->put(tier_key(2), {}, tier_bytes(2, 17 << 20U));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
  EntryMeta many;
  many.tensors.assign(1'000, TensorSpec{});
  EXPECT_EQ(tier->put(tier_key(3), many, {}).error().code, ErrorCode::kLimitExceeded);
  EXPECT_TRUE(holds(1, 100));
  EXPECT_EQ(tier->stats().refused, 2U);
}

TEST_P(TierConformance, KeepsWithinCapacityAndHoldsTheNewest) {
  constexpr std::size_t kSize = 300'000;
  for (std::uint64_t n = 1; n <= 200; ++n) {
    put(n, kSize);
    const TierStats stats = tier->stats();
    ASSERT_LE(stats.used, stats.capacity);
    ASSERT_LE(stats.capacity, 16_MiB);
  }
  EXPECT_TRUE(holds(200, kSize));
  if (!GetParam().evicts) return;
  EXPECT_EQ(get(tier_key(1)), std::nullopt);
  const TierStats stats = tier->stats();
  EXPECT_GT(stats.evicted, 100U);
  EXPECT_EQ(stats.entries.value() + stats.evicted, 200U);
  // A tier that stores next to nothing would pass all of the above.
  EXPECT_GT(stats.entries.value() * kSize, (16U << 20U) / 2);
}

TEST_P(TierConformance, AgreesWithAnObviousModel) {
  for_each_seed(5, [this](Rng& rng) {
    const auto tested = GetParam().make(16_MiB);
    std::map<std::uint64_t, std::pair<std::uint64_t, std::size_t>> model;  // seed and size
    const auto label_of = [](std::uint64_t n) { return EntryLabel(n % 5); };
    std::uint64_t gets = 0;
    for (int step = 0; step < 300; ++step) {
      const std::uint64_t n = rng.below(12);
      const std::uint64_t seed = rng.next();
      switch (rng.below(4)) {
        case 0:
          model[n] = {seed, rng.below(rng.chance(0.2) ? 200'000 : 9'000)};
          ASSERT_TRUE(
              tested->put(tier_key(n), {.labels = {label_of(n)}}, tier_bytes(seed, model[n].second))
                  .has_value());
          break;
        case 1:
          if (rng.chance(0.05)) {
            const std::size_t before = model.size();
            std::erase_if(model,
                          [&](const auto& one) { return label_of(one.first) == label_of(n); });
            ASSERT_EQ(tested->erase_matching({.any_of = {label_of(n)}}),
                      EntryCount(before - model.size()));
            break;
          }
          if (!rng.chance(0.4)) break;
          ASSERT_TRUE(tested->erase(tier_key(n)).has_value());
          model.erase(n);
          break;
        default:
          ASSERT_TRUE(tested->flush().has_value());
          const auto found = tested->get(tier_key(n), room).value();
          ++gets;
          ASSERT_EQ(found.has_value(), model.contains(n)) << "step " << step;
          if (!found) break;
          const auto [wanted, size] = model[n];
          ASSERT_TRUE(std::ranges::equal(found->bytes, tier_bytes(wanted, size)));
      }
    }
    const TierStats stats = tested->stats();
    EXPECT_EQ(stats.hits + stats.misses, gets);
    EXPECT_EQ(stats.damaged, 0U);
  });
}

TEST_P(TierConformance, ManyThreadsNeverSeeWrongBytes) {
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      Rng rng(t);
      for (int step = 0; step < 150; ++step) {
        const std::uint64_t n = rng.below(30);
        const std::size_t size = 10'000 + n * 20'000;
        switch (rng.below(8)) {
          case 0:
            EXPECT_TRUE(tier->erase(tier_key(n)).has_value());
            if (step % 10 == 0) EXPECT_TRUE(tier->erase_matching({}).has_value());
            break;
          case 1:
            EXPECT_TRUE(tier->flush().has_value());
            break;
          case 2:
          case 3:
          case 4:
            EXPECT_TRUE(tier->put(tier_key(n), {}, tier_bytes(n, size)).has_value());
            break;
          default:
            const auto found = tier->get(tier_key(n), room);
            ASSERT_TRUE(found.has_value());
            if (*found) {
              EXPECT_TRUE(std::ranges::equal((*found)->bytes, tier_bytes(n, size)));
            }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tier->stats().damaged, 0U);
  EXPECT_EQ(room.used(), 0_B) << "every copy's memory was released";
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TierConformance);

}  // namespace afterimage::testing
