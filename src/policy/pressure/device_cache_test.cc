// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/pressure/device_cache.h"

#include <gtest/gtest.h>

#include "storage/device/testing/fake_cuda.h"
#include "testing/tier_entries.h"

namespace afterimage {
namespace {

namespace fake_cuda = testing::fake_cuda;
using testing::tier_bytes;
using testing::tier_key;

std::unique_ptr<DeviceCache> open_cache(const Clock& clock) {
  auto cache = DeviceCache::open(
      {.capacity = 64_MiB,
       .device = {.keep_free = 16_MiB, .copies = 1, .library = fake_cuda::library()},
       .own_thread = false},
      clock);
  EXPECT_TRUE(cache.has_value()) << to_string(cache.error());
  return *std::move(cache);
}

TEST(DeviceCache, GivesMemoryBackWhenOthersNeedItAndTakesItAgain) {
  ManualClock clock;
  const auto cache = open_cache(clock);
  const auto put_all = [&] {
    for (std::uint64_t n = 0; n < 64; ++n) {
      (void)cache->tier().put(tier_key(n), {}, tier_bytes(n, 1'000'000));
    }
  };
  put_all();
  EXPECT_EQ(cache->tier().stats().used, 64_MiB);
  fake_cuda::set_used_by_others((956_MiB).value());
  clock.advance(std::chrono::milliseconds(50));
  cache->pressure().tick();
  const Bytes held = cache->tier().stats().used;
  EXPECT_LT(held, 64_MiB);
  EXPECT_GE(1_GiB, held + 956_MiB + 16_MiB) << "the reserve is free";
  EXPECT_GT(cache->pressure().stats().given_back, 0_B);

  fake_cuda::set_used_by_others(0);
  for (int i = 0; i < 600; ++i) {
    clock.advance(std::chrono::milliseconds(50));
    cache->pressure().tick();
  }
  put_all();
  EXPECT_EQ(cache->tier().stats().used, 64_MiB);
}

TEST(DeviceCache, ObeysTheTighterOfTwoGauges) {
  ManualClock clock;
  const auto nearly_full = std::make_shared<EngineGauge>(
      []() -> Result<GaugeReading> { return GaugeReading{.total = 512_MiB, .used = 480_MiB}; });
  const auto cache = DeviceCache::open(
      {.capacity = 64_MiB,
       .device = {.keep_free = 16_MiB, .copies = 1, .library = fake_cuda::library()},
       .gauge = nearly_full,
       .own_thread = false},
      clock);
  ASSERT_TRUE(cache.has_value());
  EXPECT_EQ((*cache)->pressure().stats().memory, 512_MiB);
  EXPECT_LE((*cache)->pressure().stats().budget, 16_MiB);
}

TEST(DeviceCache, SaysThatThereIsNoGpu) {
  ManualClock clock;
  const auto cache =
      DeviceCache::open({.capacity = 64_MiB, .device = {.library = "libno-such-cuda.so"}}, clock);
  EXPECT_EQ(cache.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace afterimage
