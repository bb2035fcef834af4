// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/put_once.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <set>
#include <utility>

namespace afterimage {
namespace {

/// A tier whose puts are pending until flush(), as on a disk with writes in flight.
class PendingTier final : public Tier {
 public:
  Result<void> put(const TierKey& key, const EntryMeta& /*meta*/,
                   std::span<const std::byte> /*bytes*/) override {
    ++puts;
    if (const auto act = std::exchange(while_putting, nullptr)) act();
    if (refuses) return fail(ErrorCode::kUnavailable, "it refuses");
    on_their_way_.insert(key.bytes);
    return {};
  }
  Result<std::optional<TierEntry>> get(const TierKey& /*key*/, MemoryBudget& /*room*/) override {
    return std::nullopt;
  }
  Result<void> erase(const TierKey& /*key*/) override { return {}; }
  Result<void> flush() override {
    there_.merge(on_their_way_);
    return {};
  }
  [[nodiscard]] bool may_contain(const TierKey& key) const override {
    return there_.contains(key.bytes);
  }
  [[nodiscard]] bool is_pending(const TierKey& key) const override {
    return on_their_way_.contains(key.bytes);
  }
  [[nodiscard]] TierStats stats() const override { return {}; }

  int puts = 0;
  bool refuses = false;
  std::function<void()> while_putting;

 private:
  std::set<decltype(TierKey::bytes)> there_;
  std::set<decltype(TierKey::bytes)> on_their_way_;
};

class PutOnceTest : public ::testing::Test {
 protected:
  PutOnce::Outcome put(const TierKey& key) {
    static constexpr std::array<std::byte, 8> kBytes{};
    const auto view = TensorView::over(DType::kU8, Shape{8}, kBytes).value();
    return once.put(key, std::span(&view, 1), Duration(1));
  }

  PendingTier tier;
  PutOnce once{tier};
  const TierKey one{.bytes = {std::byte{1}}};
  const TierKey other{.bytes = {std::byte{2}}};
};

TEST_F(PutOnceTest, SkipsStoredAndPendingEntries) {
  EXPECT_EQ(put(one), PutOnce::Outcome::kPut);
  EXPECT_EQ(put(one), PutOnce::Outcome::kThere) << "pending";
  ASSERT_TRUE(tier.flush().has_value());
  EXPECT_EQ(put(one), PutOnce::Outcome::kThere) << "there";
  EXPECT_EQ(tier.puts, 1);
  EXPECT_EQ(put(other), PutOnce::Outcome::kPut);
}

TEST_F(PutOnceTest, SkipsAnEntryThatAnotherThreadIsPutting) {
  PutOnce::Outcome meanwhile{};
  PutOnce::Outcome of_other{};
  tier.while_putting = [&] {
    meanwhile = put(one);
    of_other = put(other);
  };
  EXPECT_EQ(put(one), PutOnce::Outcome::kPut);
  EXPECT_EQ(meanwhile, PutOnce::Outcome::kThere);
  EXPECT_EQ(of_other, PutOnce::Outcome::kPut);
  EXPECT_EQ(tier.puts, 2);
}

TEST_F(PutOnceTest, RetriesARefusedPut) {
  tier.refuses = true;
  EXPECT_EQ(put(one), PutOnce::Outcome::kRefused);
  tier.refuses = false;
  EXPECT_EQ(put(one), PutOnce::Outcome::kPut);
}

}  // namespace
}  // namespace afterimage
