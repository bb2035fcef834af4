// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>

#include "afterimage/tier.h"
#include "testing/slow_tier.h"
#include "testing/tier_entries.h"

namespace afterimage {

using testing::SlowTier;
using testing::tier_bytes;
using testing::tier_key;

namespace {

/// A tier that can fail, or run a callback in the middle of a get.
class FickleTier final : public Tier {
 public:
  explicit FickleTier(MemoryBudget& budget) : tier_(budget) {}
  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    if (fails || takes_nothing) return fail(ErrorCode::kUnavailable, "gone");
    return tier_.put(key, meta, bytes);
  }
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override {
    if (fails) return fail(ErrorCode::kUnavailable, "gone");
    auto found = tier_.get(key, room);
    if (meanwhile) meanwhile();
    return found;
  }
  Result<void> erase(const TierKey& key) override {
    return fails ? fail(ErrorCode::kUnavailable, "gone") : tier_.erase(key);
  }
  Result<void> flush() override { return {}; }
  [[nodiscard]] bool may_contain(const TierKey& key) const override {
    return tier_.may_contain(key);
  }
  [[nodiscard]] TierStats stats() const override { return tier_.stats(); }

  bool fails = false;
  bool takes_nothing = false;
  std::function<void()> meanwhile;

 private:
  HostTier tier_;
};

class Stack : public ::testing::Test {
 protected:
  bool finds(Tier& tier, std::uint64_t n) {
    const auto found = tier.get(tier_key(n), room);
    return found.has_value() && found->has_value() &&
           std::ranges::equal((*found)->bytes, tier_bytes(n, 1'000));
  }
  static void put(Tier& tier, std::uint64_t n) {
    ASSERT_TRUE(tier.put(tier_key(n), {}, tier_bytes(n, 1'000)).has_value());
  }

  MemoryBudget room{1_MiB};
  MemoryBudget near_room{1_MiB};
  MemoryBudget far_room{1_MiB};
  FickleTier near{near_room};
  FickleTier far{far_room};
  TierStack stack{{&near, &far}};
  TierStack replacing{{&near, &far}, TierStack::Keys::kAreReplaced};
};

TEST_F(Stack, PromotesHitsFromFartherTiers) {
  put(far, 1);
  EXPECT_FALSE(finds(near, 1));
  EXPECT_TRUE(finds(stack, 1));
  EXPECT_TRUE(finds(near, 1));
  EXPECT_EQ(stack.stats().hits, 1U);
}

TEST_F(Stack, GetAllReadsEachKeyFromItsTier) {
  put(near, 1);
  put(far, 2);
  const std::array keys{tier_key(3), tier_key(2), tier_key(1)};
  const auto found = stack.get_all(keys, room);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_FALSE(found[0].value().has_value());
  EXPECT_TRUE(std::ranges::equal(found[1].value()->bytes, tier_bytes(2, 1'000)));
  EXPECT_TRUE(std::ranges::equal(found[2].value()->bytes, tier_bytes(1, 1'000)));
  EXPECT_TRUE(finds(near, 2));
}

TEST_F(Stack, ATierThatFailsCostsItsOwnHitsOnly) {
  put(stack, 1);
  put(near, 2);
  put(far, 3);
  far.fails = true;
  EXPECT_TRUE(finds(stack, 1));
  EXPECT_TRUE(finds(stack, 2));
  EXPECT_FALSE(finds(stack, 3));
  put(stack, 4);
  EXPECT_TRUE(finds(stack, 4));
  far.fails = false;
  near.fails = true;
  EXPECT_TRUE(finds(stack, 1));
  EXPECT_TRUE(finds(stack, 3));
  EXPECT_FALSE(finds(stack, 2));
}

TEST_F(Stack, EraseCallsAllTiersAndReportsTheError) {
  put(stack, 1);
  near.fails = true;
  EXPECT_FALSE(stack.erase(tier_key(1)).has_value());
  near.fails = false;
  EXPECT_FALSE(finds(far, 1)) << "the other tier erased nevertheless";
  EXPECT_TRUE(stack.erase(tier_key(1)).has_value());
  EXPECT_FALSE(finds(stack, 1));
}

TEST_F(Stack, DoesNotPromoteAnEntryErasedDuringTheRead) {
  put(far, 1);
  far.meanwhile = [&] { EXPECT_TRUE(stack.erase(tier_key(1)).has_value()); };
  EXPECT_TRUE(finds(stack, 1)) << "it was stored when it was read";
  far.meanwhile = nullptr;
  EXPECT_FALSE(finds(stack, 1));
}

// Regression: an old answer on disk hid a newer one for which the disk had no space.
TEST_F(Stack, ARefusedReplacementHidesNoNewerValue) {
  for (TierStack* const of : {&stack, &replacing}) {
    ASSERT_TRUE(of->put(tier_key(1), {}, tier_bytes(2, 1'000)).has_value());
    near.takes_nothing = true;
    put(*of, 1);
    near.takes_nothing = false;
    EXPECT_EQ(finds(*of, 1), of == &replacing) << "with content keys the old entry is identical";
  }
}

TEST_F(Stack, DoesNotPromoteAnEntryReplacedDuringTheRead) {
  ASSERT_TRUE(far.put(tier_key(1), {}, tier_bytes(2, 1'000)).has_value());
  far.meanwhile = [&] { put(replacing, 1); };
  EXPECT_FALSE(finds(replacing, 1)) << "the old value was stored when it was read";
  far.meanwhile = nullptr;
  EXPECT_TRUE(finds(replacing, 1));
}

TEST_F(Stack, HoldsRequiresAllTiersAndMayContainAny) {
  put(near, 1);
  EXPECT_TRUE(stack.may_contain(tier_key(1)));
  EXPECT_FALSE(stack.holds(tier_key(1)));
  put(stack, 1);
  EXPECT_TRUE(stack.holds(tier_key(1)));
}

TEST_F(Stack, InvalidatesNegativeLookUpsInAllTiers) {
  ManualClock clock;
  SlowTier first(near, clock);
  SlowTier second(far, clock);
  TierStack both({&first, &second});
  const std::vector<TierKey> keys = {tier_key(1), tier_key(2)};
  both.invalidate_negative(keys);
  EXPECT_EQ(first.forgotten, keys);
  EXPECT_EQ(second.forgotten, keys);
  EXPECT_EQ(both.places(), 2U);
  EXPECT_EQ(first.places(), 1U);
}

}  // namespace
}  // namespace afterimage
