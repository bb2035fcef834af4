// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/prefix/prefill_once.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "afterimage/platform/random.h"
#include "afterimage/prefix/testing/kv_world.h"

namespace afterimage {
namespace {

using namespace testing;  // NOLINT: the world of these tests

const KvLayout kHybrid{{full(), recurrent()}};

TEST(PrefillOnce, ADamagedHitIsAMissAndIsGone) {
  CacheFixture f;
  PrefillOnce front(*f.cache);
  const Sequence prompt = text_of(300);
  const Capture capture(space(1), kHybrid, prompt, 300, 0, {100, 299});
  ASSERT_TRUE(front.insert(space(1), kHybrid, prompt, capture.kv).has_value());
  {
    const PrefixMatch match = front.match(space(1), prompt).value();
    ASSERT_EQ(match.resume(), TokenCount(299));
    const auto state = front.kv(match).groups[1].state;
    const_cast<std::byte&>(state[0]) ^= std::byte{1};  // NOLINT: what a stray pointer would do
  }
  EXPECT_FALSE(front.match(space(1), prompt)->holds());
  EXPECT_EQ(front.stats().damaged, 1U);
  EXPECT_EQ(f.budget.used(), 0_B);
  front.check_invariants();
}

TEST(PrefillOnce, ThreadsSeeOnlyWholeAndRightKvWhileOthersStoreAndEvict) {
  CacheFixture f(40_KiB);
  {
    PrefillOnce front(*f.cache);
    std::atomic<int> wrong{0};
    std::atomic<int> hits{0};
    const auto work = [&](std::uint64_t seed) {
      Rng rng(seed);
      for (int i = 0; i < 300; ++i) {
        const auto shared_part = static_cast<std::uint32_t>(1 + rng.below(600));
        const Sequence prompt =
            text_of(shared_part) + text({static_cast<int>(rng.below(3)), 7, 8, 9});
        const auto match = front.match(space(1), prompt);
        if (!match.has_value()) ++wrong;
        if (match.has_value() && match->holds()) {
          ++hits;
          if (!is_kv_of(front.kv(*match), space(1), kHybrid, prompt)) ++wrong;
        }
        const std::uint32_t size = shared_part + 3;
        const Capture capture(space(1), kHybrid, prompt, size, 0, {shared_part, size});
        const auto stored = front.insert(space(1), kHybrid, prompt, capture.kv);
        if (!stored.has_value() && stored.error().code != ErrorCode::kNoSpace) ++wrong;
        if (i % 50 == 49) front.shed(4_KiB);
      }
    };
    std::jthread one(work, 1);
    std::jthread two(work, 2);
    one.join();
    two.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(hits, 0);
    front.check_invariants();
    front.clear();
  }
  EXPECT_EQ(f.budget.used(), 0_B);
}

}  // namespace
}  // namespace afterimage
