// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/device/device_tier.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/pressure.h"
#include "foundation/platform/random.h"
#include "storage/device/cuda_device.h"
#include "storage/device/testing/fake_cuda.h"
#include "testing/tier_conformance.h"

namespace afterimage {

using testing::tier_bytes;
using testing::tier_key;
namespace fake_cuda = testing::fake_cuda;

namespace testing {

/// With AFTERIMAGE_TEST_CUDA=libcuda.so.1 these tests use this machine's GPU.
std::string driver() {
  const char* given = std::getenv("AFTERIMAGE_TEST_CUDA");
  return given == nullptr ? fake_cuda::library() : given;
}

std::shared_ptr<Tier> make_device(Bytes capacity) {
  struct Standing {
    explicit Standing(Bytes bytes) : budget(bytes) {}
    MemoryBudget budget;
    std::unique_ptr<DeviceTier> tier;
  };
  const auto standing = std::make_shared<Standing>(capacity);
  auto opened =
      DeviceTier::open({.keep_free = 1_MiB, .copies = 2, .library = driver()}, standing->budget);
  EXPECT_TRUE(opened.has_value()) << to_string(opened.error());
  standing->tier = *std::move(opened);
  return {standing, standing->tier.get()};
}

INSTANTIATE_TEST_SUITE_P(Device, TierConformance,
                         ::testing::Values(TierFactory{"device", make_device}),
                         [](const auto& test) { return test.param.name; });

}  // namespace testing

namespace {

/// On the fake GPU only, because it fails and damages on demand.
class DeviceTierTest : public ::testing::Test {
 protected:
  ~DeviceTierTest() override { fake_cuda::reset(); }

  void open(Bytes capacity = 64_MiB, Bytes keep_free = 0_B) {
    budget.set_capacity(capacity);
    auto opened =
        DeviceTier::open({.keep_free = keep_free, .library = fake_cuda::library()}, budget);
    ASSERT_TRUE(opened.has_value()) << to_string(opened.error());
    tier = *std::move(opened);
  }
  [[nodiscard]] Result<void> put(std::uint64_t n, std::size_t size) {
    return tier->put(tier_key(n), {}, tier_bytes(n, size));
  }
  bool holds(std::uint64_t n, std::size_t size) {
    const auto found = tier->get(tier_key(n), room);
    return found.has_value() && found->has_value() &&
           std::ranges::equal((*found)->bytes, tier_bytes(n, size));
  }

  MemoryBudget budget{64_MiB};
  MemoryBudget room{256_MiB};
  std::unique_ptr<DeviceTier> tier;
};

std::string open_error(const DeviceTierOptions& options) {
  MemoryBudget budget(64_MiB);
  const auto opened = DeviceTier::open(options, budget);
  EXPECT_EQ(opened.error().code, ErrorCode::kUnavailable);
  return opened.error().message;
}

TEST_F(DeviceTierTest, OpeningSaysWhatIsMissing) {
  const std::string fake = fake_cuda::library();
  EXPECT_NE(open_error({.library = "libno-such-cuda.so.1"}).find("is it installed"),
            std::string::npos);
  EXPECT_NE(open_error({.library = "libc.so.6"}).find("cuInit"), std::string::npos);
  EXPECT_NE(open_error({.device = 3, .library = fake}).find("there is no device 3"),
            std::string::npos);
  fake_cuda::fail_function("cuInit", 100);
  EXPECT_NE(open_error({.library = fake}).find("does not start: fake error (code 100)"),
            std::string::npos);
  fake_cuda::fail_function("cuInit", 0);
  fake_cuda::fail_function("cuMemHostAlloc", 999);
  EXPECT_NE(open_error({.library = fake}).find("pinned"), std::string::npos);
  EXPECT_EQ(fake_cuda::allocated(), 0U);
}

TEST_F(DeviceTierTest, ReturnsItsMemory) {
  open();
  ASSERT_TRUE(put(1, 9'000'000).has_value());
  EXPECT_GE(fake_cuda::allocated(), 9'000'000U);
  tier.reset();
  EXPECT_EQ(fake_cuda::allocated(), 0U);
  EXPECT_EQ(budget.used(), 0_B);
}

TEST_F(DeviceTierTest, TakesSlabsAsNeededAndEvictsTheLeastRecentlyUsed) {
  open(16_MiB);
  for (std::uint64_t n = 1; n <= 4; ++n) ASSERT_TRUE(put(n, 4 << 20).has_value());
  EXPECT_EQ(budget.used(), 16_MiB);
  ASSERT_TRUE(holds(1, 4 << 20));
  ASSERT_TRUE(put(5, 3 << 20).has_value());
  EXPECT_TRUE(tier->may_contain(tier_key(1)));
  EXPECT_FALSE(tier->may_contain(tier_key(2)));
  EXPECT_TRUE(holds(5, 3 << 20));
  EXPECT_EQ(tier->stats().evicted, 1U);
  EXPECT_LE(budget.peak(), 16_MiB);
}

// Entries between which others were evicted lie in many places.
TEST_F(DeviceTierTest, AnEntryMayLieInManyPlaces) {
  open(16_MiB);
  for (std::uint64_t n = 0; n < 128; ++n) ASSERT_TRUE(put(n, 128 << 10).has_value());
  for (std::uint64_t n = 0; n < 128; n += 2) ASSERT_TRUE(tier->erase(tier_key(n)).has_value());
  ASSERT_TRUE(put(1'000, (8 << 20) - 17).has_value());
  EXPECT_EQ(tier->stats().evicted, 0U);
  EXPECT_TRUE(holds(1'000, (8 << 20) - 17));
  for (std::uint64_t n = 1; n < 128; n += 2) EXPECT_TRUE(holds(n, 128 << 10)) << n;
}

TEST_F(DeviceTierTest, LeavesTheMemoryThatOtherProgramsNeed) {
  open(512_MiB, 256_MiB);
  fake_cuda::set_used_by_others((700_MiB).value());
  std::uint64_t n = 0;
  for (; n < 20; ++n) ASSERT_TRUE(put(n, 16 << 20).has_value());
  EXPECT_LE(fake_cuda::allocated(), (68_MiB).value() + 4 * CudaDevice::Lane::kPinned);
  EXPECT_TRUE(holds(n - 1, 16 << 20));
  EXPECT_FALSE(tier->may_contain(tier_key(0)));
}

TEST_F(DeviceTierTest, WithoutAnyMemoryAPutIsRefused) {
  open(512_MiB, 256_MiB);
  fake_cuda::set_used_by_others((1_GiB).value());
  EXPECT_EQ(put(1, 1000).error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(tier->stats().refused, 1U);
  fake_cuda::set_used_by_others(0);
  EXPECT_TRUE(put(1, 1000).has_value());
}

TEST_F(DeviceTierTest, ShrinkingMovesWhatStaysAndReturnsTheRest) {
  open(64_MiB);
  for (std::uint64_t n = 0; n < 256; ++n) ASSERT_TRUE(put(n, 250'000).has_value());
  ASSERT_EQ(budget.used(), 64_MiB);
  for (std::uint64_t n = 0; n < 256; ++n) {
    if (n % 4 != 0) {
      ASSERT_TRUE(tier->erase(tier_key(n)).has_value());
    }
  }
  budget.set_capacity(16_MiB);
  EXPECT_EQ(tier->trim_to_budget(), 48_MiB);
  EXPECT_EQ(budget.used(), 16_MiB);
  EXPECT_EQ(tier->stats().evicted, 0U);
  for (std::uint64_t n = 0; n < 256; n += 4) EXPECT_TRUE(holds(n, 250'000)) << n;

  EXPECT_EQ(tier->evict_bytes(8_MiB), 8_MiB);
  EXPECT_EQ(tier->stats().evicted, 32U);
  EXPECT_TRUE(holds(252, 250'000));
  budget.set_capacity(0_B);
  EXPECT_EQ(tier->trim_to_budget(), 8_MiB);
  EXPECT_EQ(tier->eviction_candidate(), std::nullopt);
  EXPECT_EQ(tier->stats().entries, EntryCount(0));
}

TEST_F(DeviceTierTest, MovedEntriesAreStillVerified) {
  open(64_MiB);
  for (std::uint64_t n = 0; n < 256; ++n) ASSERT_TRUE(put(n, 250'000).has_value());
  for (std::uint64_t n = 0; n < 240; ++n) ASSERT_TRUE(tier->erase(tier_key(n)).has_value());
  budget.set_capacity(4_MiB);
  EXPECT_EQ(tier->trim_to_budget(), 60_MiB);
  fake_cuda::damage(7);
  for (std::uint64_t n = 240; n < 256; ++n) (void)tier->get(tier_key(n), room);
  EXPECT_EQ(tier->stats().damaged, 1U);
}

TEST_F(DeviceTierTest, WhatCannotMoveIsEvicted) {
  open(64_MiB);
  for (std::uint64_t n = 0; n < 64; ++n) ASSERT_TRUE(put(n, 1'000'000).has_value());
  for (std::uint64_t n = 0; n < 64; n += 2) ASSERT_TRUE(tier->erase(tier_key(n)).has_value());
  fake_cuda::fail_function("cuLaunchKernel", 719);
  budget.set_capacity(32_MiB);
  tier->trim_to_budget();
  EXPECT_LE(budget.used(), 32_MiB);
  fake_cuda::reset();
  for (std::uint64_t n = 1; n < 64; n += 2) {
    EXPECT_TRUE(holds(n, 1'000'000) || !tier->may_contain(tier_key(n))) << n;
  }
}

TEST_F(DeviceTierTest, ABlockedTierServesAndAdmitsNothing) {
  open();
  ASSERT_TRUE(put(1, 1000).has_value());
  tier->block_admission(true);
  EXPECT_EQ(put(2, 1000).error().code, ErrorCode::kNoSpace);
  EXPECT_TRUE(holds(1, 1000));
  tier->block_admission(false);
  EXPECT_TRUE(put(2, 1000).has_value());
}

TEST_F(DeviceTierTest, DamagedBytesAreAMiss) {
  open();
  ASSERT_TRUE(put(1, 5'000'000).has_value());
  fake_cuda::damage(4321);
  const auto found = tier->get(tier_key(1), room);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found, std::nullopt);
  EXPECT_EQ(tier->stats().damaged, 1U);
  EXPECT_FALSE(tier->may_contain(tier_key(1)));
}

TEST_F(DeviceTierTest, ErasedBytesAreOverwritten) {
  open();
  ASSERT_TRUE(put(1, 100'000).has_value());
  const auto bytes = tier_bytes(1, 100'000);
  for (const std::size_t at : {0U, 99'000U}) {
    EXPECT_TRUE(fake_cuda::contains(bytes.data() + at, 1'000)) << at;
  }
  ASSERT_TRUE(tier->erase(tier_key(1)).has_value());
  for (const std::size_t at : {0U, 30'000U, 63'000U, 65'536U, 99'000U}) {
    EXPECT_FALSE(fake_cuda::contains(bytes.data() + at, 1'000)) << at;
  }
}

TEST_F(DeviceTierTest, AFailingDriverCostsHitsAndIsReported) {
  open();
  ASSERT_TRUE(put(1, 1000).has_value());
  fake_cuda::fail_function("cuMemcpyDtoHAsync_v2", 700);
  EXPECT_EQ(tier->get(tier_key(1), room).error().code, ErrorCode::kUnavailable);
  EXPECT_NE(tier->stats().degraded_reason.find("code 700"), std::string::npos);
  fake_cuda::fail_function("cuMemcpyHtoDAsync_v2", 700);
  EXPECT_EQ(put(2, 1000).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(tier->stats().failures, 2U);
  EXPECT_FALSE(tier->may_contain(tier_key(2)));
  fake_cuda::reset();
  EXPECT_TRUE(holds(1, 1000));
  EXPECT_EQ(tier->stats().degraded_reason, "");
  EXPECT_TRUE(put(2, 1000).has_value());
}

/// Device memory of an engine that lives in the same process.
class EngineMemory {
 public:
  explicit EngineMemory(std::size_t size) : size_(size) {
    device_ = CudaDevice::open(0, fake_cuda::library()).value();
    lane_ = CudaDevice::Lane::create(*device_).value();
    at = device_->allocate(size).value();
    write(std::vector<std::byte>(size));
  }
  ~EngineMemory() { device_->free(at); }
  EngineMemory(const EngineMemory&) = delete;
  EngineMemory& operator=(const EngineMemory&) = delete;

  void write(std::span<const std::byte> bytes) {
    std::ranges::copy(bytes, lane_->pinned().begin());
    const std::array to = {DeviceSpan{.at = at, .size = bytes.size()}};
    ASSERT_TRUE(lane_->start_upload(lane_->pinned().first(bytes.size()), to).has_value());
    ASSERT_TRUE(lane_->wait().has_value());
  }
  std::vector<std::byte> read(std::size_t from, std::size_t size) {
    const std::array all = {DeviceSpan{.at = at, .size = size_}};
    EXPECT_TRUE(lane_->start_download(all, lane_->pinned().first(size_)).has_value());
    EXPECT_TRUE(lane_->wait().has_value());
    const auto part = lane_->pinned().subspan(from, size);
    return {part.begin(), part.end()};
  }

  DeviceAddress at = 0;

 private:
  std::size_t size_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaDevice::Lane> lane_;
};

TEST_F(DeviceTierTest, CopiesPinnedMemoryWithoutAnother) {
  open();
  const auto device = CudaDevice::open(0, fake_cuda::library()).value();
  const auto lane = CudaDevice::Lane::create(*device).value();
  const std::size_t size = lane->pinned().size();
  const auto whole = tier_bytes(1, size);
  std::ranges::copy(whole, lane->pinned().begin());
  EXPECT_TRUE(device->is_pinned(lane->pinned().data() + size - 1));
  EXPECT_FALSE(device->is_pinned(whole.data()));

  const std::span<const std::byte> pinned = lane->pinned();
  ASSERT_TRUE(tier->put(tier_key(1), {}, pinned).has_value());
  // Partly from pinned memory, in pieces that end anywhere.
  const std::span<const std::byte> plain = whole;
  const std::array pieces = {plain.first(5), pinned.subspan(5, 3'000'000),
                             plain.subspan(3'000'005)};
  ASSERT_TRUE(tier->put_pieces(tier_key(2), {}, pieces).has_value());
  EXPECT_TRUE(std::ranges::equal((*tier->get(tier_key(1), room))->bytes, whole));
  EXPECT_TRUE(std::ranges::equal((*tier->get(tier_key(2), room))->bytes, whole));

  std::ranges::fill(lane->pinned(), std::byte{0});
  EXPECT_TRUE(tier->get_to_host(tier_key(1), lane->pinned()).value());
  EXPECT_TRUE(std::ranges::equal(lane->pinned(), whole));
  std::vector<std::byte> mine(size);
  EXPECT_TRUE(tier->get_to_host(tier_key(2), mine).value());
  EXPECT_EQ(mine, whole);
  EXPECT_FALSE(tier->get_to_host(tier_key(3), mine).value());
  EXPECT_EQ(tier->get_to_host(tier_key(1), std::span(mine).first(7)).error().code,
            ErrorCode::kInvalidArgument);
  fake_cuda::damage(99);
  EXPECT_FALSE(tier->get_to_host(tier_key(1), lane->pinned()).value());
}

TEST_F(DeviceTierTest, GathersPagesAndScattersThemAgain) {
  open();
  EngineMemory engine(1 << 20);
  const auto whole = tier_bytes(9, 1 << 20);
  engine.write(whole);
  // Pages in any order, of odd sizes and at odd places.
  const std::vector<DeviceSpan> pages = {{.at = engine.at + 500'000, .size = 70'001},
                                         {.at = engine.at + 16, .size = 4'096},
                                         {.at = engine.at + 900'003, .size = 13}};
  std::vector<std::byte> expected;
  for (const DeviceSpan& page : pages) {
    const auto from = whole.begin() + static_cast<std::ptrdiff_t>(page.at - engine.at);
    expected.insert(expected.end(), from, from + static_cast<std::ptrdiff_t>(page.size));
  }
  const EntryMeta meta{.tensors = {{DType::kU8, Shape{expected.size()}}}, .cost = Duration(7)};
  ASSERT_TRUE(tier->put_from_device(tier_key(1), meta, pages).has_value());
  ASSERT_TRUE(put(2, 1'000).has_value());

  const auto on_host = tier->get(tier_key(1), room);
  ASSERT_TRUE(on_host.has_value() && on_host->has_value());
  EXPECT_EQ((*on_host)->meta, meta);
  EXPECT_TRUE(std::ranges::equal((*on_host)->bytes, expected));

  engine.write(std::vector<std::byte>(1 << 20));
  const std::vector<DeviceSpan> first = {{.at = engine.at + 100, .size = expected.size() - 50'000},
                                         {.at = engine.at + 400'000, .size = 50'000}};
  const std::vector<DeviceSpan> second = {{.at = engine.at + 600'000, .size = 1'000}};
  const std::vector<DeviceSpan> third = {{.at = engine.at + 700'000, .size = 1'000}};
  const auto there = tier->get_to_device(std::array{DevicePlace{tier_key(1), first},
                                                    DevicePlace{tier_key(3), second},
                                                    DevicePlace{tier_key(2), third}});
  ASSERT_TRUE(there.has_value());
  EXPECT_EQ(*there, (std::vector<bool>{true, false, true}));
  auto back = engine.read(100, expected.size() - 50'000);
  const auto rest = engine.read(400'000, 50'000);
  back.insert(back.end(), rest.begin(), rest.end());
  EXPECT_EQ(back, expected);
  EXPECT_EQ(engine.read(600'000, 1'000), std::vector<std::byte>(1'000));
  EXPECT_EQ(engine.read(700'000, 1'000), tier_bytes(2, 1'000));
  EXPECT_EQ(engine.read(0, 100), std::vector<std::byte>(100));
}

// Copies that were listed before a failure must not be done by the next that uses the lane.
TEST_F(DeviceTierTest, AFailedCopyLeavesNothingBehind) {
  auto opened = CudaDevice::open(0, fake_cuda::library());
  ASSERT_TRUE(opened.has_value());
  auto created = CudaDevice::Lane::create(**opened);
  ASSERT_TRUE(created.has_value());
  auto& lane = **created;
  EngineMemory engine(4'096);
  const auto bytes = tier_bytes(1, 4'096);
  engine.write(bytes);
  const std::vector<DeviceSpan> from = {{.at = engine.at, .size = 16},
                                        {.at = engine.at + 17, .size = 16}};
  const std::vector<DeviceSpan> to = {{.at = engine.at + 1'024, .size = 16},
                                      {.at = engine.at + 2'048, .size = 16}};
  fake_cuda::fail_function("cuMemcpyDtoDAsync_v2", 999);
  EXPECT_FALSE(lane.start_copy(from, to).has_value());
  fake_cuda::reset();
  ASSERT_TRUE(lane.wait().has_value());
  EXPECT_EQ(engine.read(0, 4'096), bytes);
}

// Of both streams, or the GPU writes to memory that was freed.
TEST_F(DeviceTierTest, AFailureWaitsForTheCopiesThatRun) {
  auto opened = CudaDevice::open(0, fake_cuda::library());
  ASSERT_TRUE(opened.has_value());
  auto created = CudaDevice::Lane::create(**opened);
  ASSERT_TRUE(created.has_value());
  constexpr std::size_t kSize = std::size_t{4'000} * 16;
  EngineMemory engine(2 * kSize);
  const auto bytes = tier_bytes(1, kSize);
  engine.write(bytes);
  std::vector<DeviceSpan> from;
  std::vector<DeviceSpan> to;
  for (std::size_t at = 0; at < kSize; at += 16) {
    from.push_back({.at = engine.at + at, .size = 16});
    to.push_back({.at = engine.at + kSize + at, .size = 16});
  }
  from.back().at -= 1;  // the driver copies it
  fake_cuda::fail_function("cuMemcpyDtoDAsync_v2", 999);
  EXPECT_FALSE((*created)->start_copy(from, to).has_value());
  fake_cuda::reset();
  constexpr std::size_t kLaunched = std::size_t{2'560} * 16;  // by two launches
  const auto begun = std::span(bytes).first(kLaunched);
  EXPECT_TRUE(std::ranges::equal(engine.read(kSize, kLaunched), begun));
}

// More copies than a lane lists at a time.
TEST_F(DeviceTierTest, CopiesAnyNumberOfPlaces) {
  auto opened = CudaDevice::open(0, fake_cuda::library());
  ASSERT_TRUE(opened.has_value());
  auto created = CudaDevice::Lane::create(**opened);
  ASSERT_TRUE(created.has_value());
  constexpr std::size_t kPlaces = 70'000;
  constexpr std::size_t kHalf = kPlaces * 16;
  EngineMemory engine(2 * kHalf);
  const auto bytes = tier_bytes(1, kHalf);
  engine.write(bytes);
  std::vector<DeviceSpan> from;
  std::vector<std::byte> expected;
  for (std::size_t n = kPlaces; n-- > 0;) {
    from.push_back({.at = engine.at + n * 16, .size = 16});
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(n * 16);
    expected.insert(expected.end(), begin, begin + 16);
  }
  const DeviceSpan to{.at = engine.at + kHalf, .size = kHalf};
  ASSERT_TRUE((*created)->start_copy(from, {&to, 1}).has_value());
  ASSERT_TRUE((*created)->wait().has_value());
  EXPECT_EQ(engine.read(kHalf, kHalf), expected);
}

TEST_F(DeviceTierTest, APlaceOfAnotherSizeGetsNothing) {
  open();
  EngineMemory engine(4'096);
  ASSERT_TRUE(put(1, 1'000).has_value());
  const std::vector<DeviceSpan> small = {{.at = engine.at, .size = 999}};
  const auto there = tier->get_to_device(std::array{DevicePlace{tier_key(1), small}});
  EXPECT_EQ(there.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine.read(0, 999), std::vector<std::byte>(999));
}

// Another program takes and returns the GPU's memory at random; the tier never holds more than the
// governor allows, and what it serves is right.
TEST_F(DeviceTierTest, GivesWayToOtherProgramsUnderAGovernor) {
  open();
  SharedBudget shared(budget);
  shared.join(*tier);
  std::size_t others = 0;
  const auto gauge = std::make_shared<EngineGauge>([&]() -> Result<GaugeReading> {
    return GaugeReading{.total = 1_GiB, .used = Bytes(others + fake_cuda::allocated())};
  });
  ManualClock clock;
  PressureOptions pressure{.gauge = gauge, .governor = {.reserve = 8_MiB}, .own_thread = false};
  auto controller = PressureController::create(pressure, shared, clock);
  ASSERT_TRUE(controller.has_value()) << to_string(controller.error());
  Rng rng(5);
  std::uint64_t hits = 0;
  for (std::uint64_t i = 0; i < 400; ++i) {
    if (i % 20 == 0) {
      others = std::min((900_MiB + Bytes(rng.below((120_MiB).value()))).value(),
                        (1_GiB).value() - fake_cuda::allocated());
      fake_cuda::set_used_by_others(others);
    }
    clock.advance(std::chrono::milliseconds(50));
    const GovernorActions actions = (*controller)->tick();
    EXPECT_LE(budget.used(), actions.budget) << i;
    const std::uint64_t n = rng.below(120);
    if (holds(n, 500'000)) {
      ++hits;
    } else {
      EXPECT_FALSE(tier->may_contain(tier_key(n)));
      (void)put(n, 500'000);
    }
    EXPECT_LE(fake_cuda::allocated() + others, (1_GiB).value()) << i;
  }
  EXPECT_GT(hits, 20U);
  EXPECT_EQ(tier->stats().damaged, 0U);
}

}  // namespace
}  // namespace afterimage
