// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/encrypted_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "afterimage/clock.h"
#include "afterimage/disk_tier.h"
#include "afterimage/tier.h"
#include "storage/memory/put_once.h"
#include "testing/slow_tier.h"
#include "testing/temporary_folder.h"
#include "testing/tier_conformance.h"

namespace afterimage {

using ::testing::HasSubstr;
using testing::tier_bytes;
using testing::tier_key;

namespace {

EncryptionKeys keys_of(const std::string& digits) {
  std::string text;
  for (const char digit : digits) text += std::string(64, digit) + "\n";
  return EncryptionKeys::parse(text, "test").value();
}

}  // namespace

namespace testing {

std::shared_ptr<Tier> make_encrypted_host(Bytes capacity) {
  struct Standing {
    explicit Standing(Bytes bytes)
        : budget(bytes), host(budget), tier(host, keys_of("1"), memory) {}
    MemoryBudget budget;
    MemoryBudget memory{64_MiB};
    HostTier host;
    EncryptedTier tier;
  };
  const auto standing = std::make_shared<Standing>(capacity);
  return {standing, &standing->tier};
}

std::shared_ptr<Tier> make_encrypted_disk(Bytes capacity) {
  struct Standing {
    TemporaryFolder folder;
    MemoryBudget memory{128_MiB};
    SystemClock clock;
    std::unique_ptr<DiskTier> disk;
    std::unique_ptr<EncryptedTier> tier;
  };
  const auto standing = std::make_shared<Standing>();
  const DiskTierOptions options{.log = {.capacity = capacity,
                                        .batch_bytes = 256_KiB,
                                        .read_timeout = std::chrono::seconds(20),
                                        .append_timeout = std::chrono::seconds(20)}};
  standing->disk =
      DiskTier::open(standing->folder.path(), options, standing->memory, standing->clock).value();
  standing->tier = std::make_unique<EncryptedTier>(*standing->disk, keys_of("1"), standing->memory);
  return {standing, standing->tier.get()};
}

INSTANTIATE_TEST_SUITE_P(Ciphertext, TierConformance,
                         ::testing::Values(TierFactory{"host", make_encrypted_host},
                                           TierFactory{"disk", make_encrypted_disk}),
                         [](const auto& test) { return test.param.name; });

}  // namespace testing

namespace {

class EncryptedTierTest : public ::testing::Test {
 protected:
  void put(EncryptedTier& tier, std::uint64_t n) {
    ASSERT_TRUE(tier.put(tier_key(n), {.cost = Duration(n)}, tier_bytes(n, 5'000)).has_value());
  }
  bool holds(EncryptedTier& tier, std::uint64_t n) {
    const auto entry = tier.get(tier_key(n), room).value();
    return entry && std::ranges::equal(entry->bytes, tier_bytes(n, 5'000)) &&
           entry->meta.cost == Duration(n);
  }

  MemoryBudget budget{1_MiB};
  MemoryBudget memory{1_MiB};
  MemoryBudget room{1_MiB};
  HostTier host{budget};
};

TEST_F(EncryptedTierTest, ADamagedEntryIsAMissCountedAndRemoved) {
  EncryptedTier tier(host, keys_of("1"), memory);
  put(tier, 1);
  // The wrapped tier finds nothing wrong with the entry: an attacker put it there.
  std::vector<std::byte> bytes;
  {
    const auto entry = host.get(tier_key(1), room).value();
    bytes.assign(entry->bytes.begin(), entry->bytes.end());
  }
  bytes.back() ^= std::byte{1};
  ASSERT_TRUE(host.put(tier_key(1), {}, bytes).has_value());
  const TierStats before = tier.stats();
  EXPECT_FALSE(holds(tier, 1));
  const TierStats after = tier.stats();
  EXPECT_EQ(after.damaged, before.damaged + 1);
  EXPECT_EQ(after.misses, before.misses + 1);
  EXPECT_EQ(after.hits, before.hits);
  EXPECT_FALSE(host.may_contain(tier_key(1)));
}

TEST_F(EncryptedTierTest, EntriesCannotBeSwapped) {
  EncryptedTier tier(host, keys_of("1"), memory);
  put(tier, 1);
  put(tier, 2);
  const auto other = host.get(tier_key(2), room).value();
  ASSERT_TRUE(host.put(tier_key(1), {}, other->bytes).has_value());
  EXPECT_EQ(tier.get(tier_key(1), room).value(), std::nullopt);
  EXPECT_TRUE(holds(tier, 2));
}

TEST_F(EncryptedTierTest, TheWrongKeyMissesEverythingAndReportsWhy) {
  {
    EncryptedTier tier(host, keys_of("1"), memory);
    put(tier, 1);
    put(tier, 2);
  }
  EncryptedTier wrong(host, keys_of("2"), memory);
  EXPECT_TRUE(wrong.may_contain(tier_key(1)));
  EXPECT_FALSE(holds(wrong, 1));
  EXPECT_FALSE(holds(wrong, 2));
  EXPECT_EQ(wrong.stats().damaged, 2U);
  EXPECT_THAT(wrong.stats().degraded_reason,
              HasSubstr("2 entries are encrypted under another key"));
  // If the key was wrong by mistake, nothing is lost.
  EncryptedTier right(host, keys_of("1"), memory);
  EXPECT_TRUE(holds(right, 1));
  EXPECT_TRUE(holds(right, 2));
  EXPECT_EQ(right.stats().degraded_reason, "");
}

// Otherwise content under an old key would never be stored again, because the tier already has it.
TEST_F(EncryptedTierTest, EntriesUnderAnotherKeyArePutAgain) {
  EncryptedTier old(host, keys_of("1"), memory);
  put(old, 1);
  EncryptedTier tier(host, keys_of("2"), memory);
  EXPECT_FALSE(holds(tier, 1));
  EXPECT_FALSE(tier.may_contain(tier_key(1)));
  PutOnce once(tier);
  EXPECT_EQ(once.put(tier_key(1), {}, Duration(1)), PutOnce::Outcome::kPut);
  EXPECT_TRUE(tier.may_contain(tier_key(1)));
  EXPECT_TRUE(tier.get(tier_key(1), room).value().has_value());
}

TEST_F(EncryptedTierTest, ChangingTheKeyLosesNoEntries) {
  {
    EncryptedTier tier(host, keys_of("1"), memory);
    put(tier, 1);
  }
  {
    EncryptedTier tier(host, keys_of("21"), memory);
    EXPECT_TRUE(holds(tier, 1));
    put(tier, 2);
  }
  EncryptedTier tier(host, keys_of("2"), memory);
  EXPECT_FALSE(holds(tier, 1));
  EXPECT_TRUE(holds(tier, 2));
}

TEST_F(EncryptedTierTest, UnencryptedEntriesAreNotServed) {
  ASSERT_TRUE(host.put(tier_key(1), {}, tier_bytes(1, 5'000)).has_value());
  EncryptedTier tier(host, keys_of("1"), memory);
  EXPECT_FALSE(holds(tier, 1));
  EXPECT_THAT(tier.stats().degraded_reason, HasSubstr("before encryption was enabled"));
  put(tier, 1);
  EXPECT_TRUE(holds(tier, 1));
}

// The cost in the wrapped tier is only a hint for load-or-compute; a get returns the encrypted one.
TEST_F(EncryptedTierTest, TheAuthenticatedCostIsUsed) {
  EncryptedTier tier(host, keys_of("1"), memory);
  put(tier, 7);
  EXPECT_EQ(tier.metadata(tier_key(7))->cost, Duration(7));
  std::vector<std::byte> bytes;
  {
    const auto entry = host.get(tier_key(7), room).value();
    bytes.assign(entry->bytes.begin(), entry->bytes.end());
  }
  ASSERT_TRUE(host.put(tier_key(7), {.cost = Duration(99)}, bytes).has_value());
  EXPECT_EQ(tier.get(tier_key(7), room).value()->meta.cost, Duration(7));
}

TEST(EncryptedTierOverOthers, ForwardsNegativeInvalidation) {
  MemoryBudget room{1_MiB};
  HostTier host(room);
  ManualClock clock;
  testing::SlowTier near(host, clock);
  testing::SlowTier far(host, clock);
  TierStack stack({&near, &far});
  EncryptedTier tier(stack, keys_of("1"), room);
  tier.invalidate_negative(std::array{tier_key(1)});
  EXPECT_THAT(far.forgotten, ::testing::ElementsAre(tier_key(1)));
  EXPECT_EQ(tier.places(), 2U);
}

TEST_F(EncryptedTierTest, APutWithoutMemoryIsRefused) {
  MemoryBudget narrow(1_KiB);
  EncryptedTier tier(host, keys_of("1"), narrow);
  EXPECT_EQ(tier.put(tier_key(1), {}, tier_bytes(1, 5'000)).error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(tier.stats().refused, 1U);
  EXPECT_FALSE(host.may_contain(tier_key(1)));
}

TEST(EncryptedTierOnDisk, StoresNoPlaintextAndSurvivesARestart) {
  const testing::TemporaryFolder folder;
  MemoryBudget memory(64_MiB);
  const SystemClock clock;
  const std::string secret = "what nobody is to read on this disk";
  const auto open = [&] {
    return DiskTier::open(folder.path(), {.log = {.capacity = 8_MiB}}, memory, clock).value();
  };
  const auto bytes = std::as_bytes(std::span(secret));
  {
    const auto disk = open();
    EncryptedTier tier(*disk, keys_of("1"), memory);
    ASSERT_TRUE(tier.put(tier_key(1), {.tensors = {{DType::kU8, Shape{secret.size()}}}}, bytes)
                    .has_value());
    ASSERT_TRUE(tier.flush().has_value());
  }
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    std::ifstream in(file.path(), std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(in)), {});
    EXPECT_FALSE(content.contains("nobody is to read")) << file.path();
  }
  const auto disk = open();
  EncryptedTier tier(*disk, keys_of("1"), memory);
  const auto entry = tier.get(tier_key(1), memory).value();
  ASSERT_TRUE(entry.has_value());
  EXPECT_TRUE(std::ranges::equal(entry->bytes, bytes));
}

}  // namespace
}  // namespace afterimage
