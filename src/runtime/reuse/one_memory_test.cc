// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Encoder outputs and KV in one budget: whatever is worth least leaves, whichever cache needs room.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "afterimage/reuse.h"
#include "afterimage/reuse_stats.h"
#include "caches/prefix/testing/kv_world.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

const KvLayout kLayout{{testing::full(4096)}};

struct OneMemory {
  explicit OneMemory(std::string policy = "worth")
      : reuse(Reuse::create({.budget = 512_KiB, .policy = std::move(policy)}, {}, clock).value()) {}

  /// One encoder output of 32 KiB that took so long; whether it was kept.
  bool image(unsigned n, Duration cost) {
    EncoderKey key;
    key.bytes[0] = static_cast<std::byte>(n);
    const auto got =
        reuse->encoder().get_or_encode(key, Modality::kImage, [&]() -> Result<EncoderOutput> {
          clock.advance(cost);
          return EncoderOutput{{.dtype = DType::kF32,
                                .shape = Shape{512, 16},
                                .bytes = std::vector<std::byte>(32U << 10U)}};
        });
    return got.has_value() && got->resident();
  }
  /// KV of 8 tokens, 32 KiB; whether it was kept.
  bool kv(int seed, Duration cost) {
    const Sequence prompt = testing::text_of(8, seed);
    testing::Capture capture(testing::space(1), kLayout, prompt, 8, 0, {});
    capture.kv.cost = cost;
    return reuse->prefix()
        ->cache()
        .insert(testing::space(1), kLayout, prompt, capture.kv)
        .has_value();
  }
  [[nodiscard]] Bytes images() const { return reuse->stats().encoder.resident; }
  [[nodiscard]] Bytes prefixes() const { return reuse->stats().prefix.resident; }

  ManualClock clock;
  std::unique_ptr<Reuse> reuse;
};

// What came first held all of the budget for ever, and the other cache never kept anything.
TEST(OneMemory, ANewEntryEvictsFromAnotherCache) {
  for (const std::string policy : {"worth", "lru"}) {
    OneMemory f(policy);
    for (int n = 1; n <= 16; ++n) ASSERT_TRUE(f.kv(n, 1ms));
    ASSERT_EQ(f.prefixes(), 512_KiB);
    for (unsigned n = 0; n < 8; ++n) EXPECT_TRUE(f.image(n, 1s)) << policy << n;
    EXPECT_EQ(f.images(), 256_KiB) << policy;
    EXPECT_EQ(f.prefixes(), 256_KiB) << policy;
    f.reuse->prefix()->cache().clear();
    for (unsigned n = 8; n < 16; ++n) EXPECT_TRUE(f.image(n, 1ms)) << policy << n;
    ASSERT_EQ(f.images(), 512_KiB);
    for (int n = 1; n <= 4; ++n) EXPECT_TRUE(f.kv(n, 1s)) << policy << n;
    EXPECT_EQ(f.prefixes(), 128_KiB) << policy;
    EXPECT_LE(f.reuse->stats().peak, 512_KiB);
  }
}

TEST(OneMemory, EvictsWhatSavesTheFewestSecondsPerByte) {
  OneMemory f;
  for (int n = 1; n <= 8; ++n) ASSERT_TRUE(f.kv(n, 2s));
  for (unsigned n = 0; n < 8; ++n) ASSERT_TRUE(f.image(n, 10ms));
  for (int n = 9; n <= 12; ++n) ASSERT_TRUE(f.kv(n, 2s));
  EXPECT_EQ(f.prefixes(), 384_KiB) << "cheap pictures made room for dear KV";
  EXPECT_EQ(f.images(), 128_KiB);
  for (unsigned n = 20; n < 24; ++n) ASSERT_TRUE(f.image(n, 10ms));
  EXPECT_EQ(f.prefixes(), 384_KiB) << "and dear KV does not leave for cheap pictures";
  EXPECT_EQ(f.images(), 128_KiB);
}

TEST(OneMemory, ANewOutputLeavesAsManyAsTheFloorSays) {
  ManualClock clock;
  const auto reuse =
      Reuse::create({.budget = 96_KiB, .min_encoder_entries = EntryCount(3)}, {}, clock).value();
  const auto keeps = [&](unsigned n, std::size_t bytes) {
    EncoderKey key;
    key.bytes[0] = static_cast<std::byte>(n);
    const auto got =
        reuse->encoder().get_or_encode(key, Modality::kImage, [&]() -> Result<EncoderOutput> {
          clock.advance(1s);
          return EncoderOutput{
              {.dtype = DType::kU8, .shape = Shape{bytes}, .bytes = std::vector<std::byte>(bytes)}};
        });
    return got.has_value() && got->resident();
  };
  for (unsigned n = 0; n < 3; ++n) ASSERT_TRUE(keeps(n, 32U << 10U));
  EXPECT_FALSE(keeps(9, 64U << 10U)) << "two would have to leave for it";
  EXPECT_TRUE(keeps(10, 32U << 10U)) << "one for one";
}

// A prompt that goes on from what is cached must not evict what it stands on.
TEST(OneMemory, PinsTheParentOfNewKvWhileItEvicts) {
  OneMemory f;
  for (unsigned n = 0; n < 12; ++n) ASSERT_TRUE(f.image(n, 1s));
  ASSERT_TRUE(f.kv(1, 1ms));  // the cheapest of all
  const Sequence longer = testing::text_of(8 + 32, 1);
  const testing::Capture capture(testing::space(1), kLayout, longer, 8 + 32, 8, {});
  const auto added =
      f.reuse->prefix()->cache().insert(testing::space(1), kLayout, longer, capture.kv);
  ASSERT_TRUE(added.has_value()) << added.error().message;
  EXPECT_EQ(added->had, TokenCount(8));
  EXPECT_EQ(f.prefixes(), 160_KiB);
}

TEST(OneMemory, ThreadsThatNeedEachOthersSpaceDoNotDeadlock) {
  for (const std::string policy : {"worth", "lru"}) {
    OneMemory f(policy);
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&f, t] {
        for (int i = 0; i < 60; ++i) {
          if ((t + i) % 2 == 0) {
            static_cast<void>(f.image(static_cast<unsigned>((t * 7 + i) % 40), 1us));
          } else {
            static_cast<void>(f.kv(1 + (t * 5 + i) % 40, 1us));
          }
        }
      });
    }
    threads.clear();
    f.reuse->encoder().cache().check_invariants();
    f.reuse->prefix()->cache().check_invariants();
    EXPECT_LE(f.reuse->stats().peak, 512_KiB);
    // Which of them came last is chance; that either is still kept is not.
    EXPECT_TRUE(f.image(99, 1s));
    EXPECT_TRUE(f.kv(99, 1s));
  }
}

}  // namespace
}  // namespace afterimage
