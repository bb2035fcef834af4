// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/reuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <thread>

#include "afterimage/encode_once.h"
#include "afterimage/reuse_stats.h"
#include "afterimage/tier.h"
#include "runtime/reuse/plan.h"
#include "runtime/reuse/testing/media.h"
#include "testing/slow_tier.h"

namespace afterimage {
namespace {

using testing::image;
using testing::output;

struct Fixture {
  explicit Fixture(Bytes budget = 1_MiB, Tier* tier = nullptr)
      : reuse(Reuse::create({.budget = budget, .tier = tier, .weigh_loads = false}, Secret{}, clock)
                  .value()) {}

  MediaPlan plan(const std::vector<MediaItem>& items, const std::string& tenant = "",
                 const std::string& agent = "") const {
    std::vector<const MediaItem*> media;
    for (const MediaItem& item : items) media.push_back(&item);
    const Namespace space = reuse->space({.model = "m", .encoder = "e"}, TenantId(tenant)).value();
    return reuse->plan_media(fingerprint(media, space, Recipes()), agent);
  }

  ManualClock clock;
  std::unique_ptr<Reuse> reuse;
};

using Items = std::vector<std::size_t>;
using Sources = std::vector<MediaSource>;

TEST(Reuse, AnUnknownPolicyIsRefusedWithTheKnownOnes) {
  const ManualClock clock;
  const auto made = Reuse::create({.policy = "lru2"}, Secret{}, clock);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(Reuse::create({.policy = "gdsf"}, Secret{}, clock).has_value());
}

TEST(MediaPlan, EncodesMissesAndFindsHits) {
  Fixture f;
  {
    MediaPlan plan = f.plan({image("a"), image("b")});
    EXPECT_EQ(plan.to_encode(), (Items{0, 1}));
    ASSERT_TRUE(plan.commit(0, output(1), Duration(10)).has_value());
    ASSERT_TRUE(plan.commit(1, output(2), Duration(20)).has_value());
    EXPECT_TRUE(plan.await().value());
    EXPECT_EQ(plan.sources(), (Sources{MediaSource::kEncoded, MediaSource::kEncoded}));
  }
  const MediaPlan plan = f.plan({image("b"), image("a")});
  EXPECT_TRUE(plan.to_encode().empty());
  EXPECT_EQ(plan.embeddings()[0][0].bytes()[0], std::byte{2});
  EXPECT_EQ(plan.embeddings()[1][0].bytes()[0], std::byte{1});
  EXPECT_EQ(plan.sources(), (Sources{MediaSource::kReused, MediaSource::kReused}));
  EXPECT_EQ(f.reuse->stats().encoder.encode_time_saved, Duration(30));
}

TEST(MediaPlan, EncodesARepeatedItemOnceWithoutWaiting) {
  Fixture f;
  MediaPlan plan = f.plan({image("a"), image("b"), image("a")});
  EXPECT_EQ(plan.to_encode(), (Items{0, 1}));
  ASSERT_TRUE(plan.commit(0, output(1), {}).has_value());
  ASSERT_TRUE(plan.commit(1, output(2), {}).has_value());
  EXPECT_TRUE(plan.await().value());
  EXPECT_EQ(plan.embeddings()[2][0].bytes()[0], std::byte{1});
  EXPECT_EQ(plan.sources()[2], MediaSource::kRepeated);
}

TEST(MediaPlan, TenantsShareNothingInMemory) {
  Fixture f;
  {
    MediaPlan plan = f.plan({image("a")}, "acme");
    ASSERT_TRUE(plan.commit(0, output(1), {}).has_value());
  }
  EXPECT_EQ(f.plan({image("a")}, "other").to_encode(), (Items{0}));
  EXPECT_TRUE(f.plan({image("a")}, "acme").to_encode().empty());
}

TEST(MediaPlan, CountsTheAgentsThatShareAnEntry) {
  Fixture f;
  {
    MediaPlan plan = f.plan({image("a")}, "", "analyst");
    ASSERT_TRUE(plan.commit(0, output(1), {}).has_value());
  }
  for (const char* agent : {"auditor", "analyst", "designer"}) {
    EXPECT_TRUE(f.plan({image("a")}, "", agent).to_encode().empty());
  }
  const Namespace space = f.reuse->space({.model = "m", .encoder = "e"}, TenantId()).value();
  const MediaItem a = image("a");
  const MediaItem* const media[] = {&a};
  const auto prints = fingerprint(media, space, Recipes());
  EXPECT_EQ(f.reuse->encoder().cache().info(prints.keys[0])->agents, 3U);
}

TEST(Reuse, ReportsTheMediaItemThatIsEvicted) {
  const ManualClock clock;
  std::vector<std::string> evicted;
  const auto reuse =
      Reuse::create(
          {.max_encoder_entries = EntryCount(1),
           .on_encoder_evicted =
               [&](const EncoderEntryInfo& item) { evicted.push_back(item.facts.content->hex()); }},
          Secret{}, clock)
          .value();
  const auto encode = [&](const char* name) {
    const MediaItem item = image(name);
    const MediaItem* const media[] = {&item};
    const Namespace space = reuse->space({.model = "m", .encoder = "e"}, TenantId()).value();
    MediaPlan plan = reuse->plan_media(fingerprint(media, space, Recipes()), "");
    ASSERT_TRUE(plan.commit(0, output(1), {}).has_value());
  };
  encode("a");
  encode("b");
  EXPECT_EQ(evicted, std::vector<std::string>{content_digest(image("a")).hex()});
}

// Eight requests a second that hold two outputs for a second each: by Little's law and the Poisson
// quantile, 17 requests hold 34 outputs at most.
TEST(Reuse, TheFloorFollowsTheLoad) {
  ManualClock clock;
  const auto reuse =
      Reuse::create({.min_encoder_entries = kMinEntriesFromLoad}, Secret{}, clock).value();
  EXPECT_EQ(reuse->stats().encoder.min_entries.value(), 0U);
  const Namespace space = reuse->space({.model = "m", .encoder = "e"}, TenantId()).value();
  std::deque<MediaPlan> running;
  const auto begin = [&](int n) {
    const MediaItem a = image("a" + std::to_string(n));
    const MediaItem b = image("b" + std::to_string(n));
    const MediaItem* const media[] = {&a, &b};
    MediaPlan plan = reuse->plan_media(fingerprint(media, space, Recipes()), "");
    for (const std::size_t at : plan.to_encode()) {
      ASSERT_TRUE(plan.commit(at, output(1), {}).has_value());
    }
    running.push_back(std::move(plan));
  };
  for (int n = 0; n < 8 * 300; ++n) {
    begin(n);
    if (running.size() > 8) running.pop_front();
    clock.advance(std::chrono::milliseconds(125));
  }
  running.clear();
  EXPECT_NEAR(static_cast<double>(reuse->stats().encoder.min_entries.value()), 34, 2);
  clock.advance(std::chrono::minutes(10));  // nobody comes
  begin(-1);
  running.clear();
  EXPECT_LT(reuse->stats().encoder.min_entries.value(), 3U);
}

TEST(MediaPlan, ServesAnItemLargerThanTheBudgetUncached) {
  Fixture f(64_B);
  for (int i = 0; i < 2; ++i) {
    MediaPlan plan = f.plan({image("a")});
    ASSERT_EQ(plan.to_encode(), (Items{0}));
    ASSERT_TRUE(plan.commit(0, output(1), {}).has_value());
    EXPECT_EQ(plan.sources(), (Sources{MediaSource::kUncached}));
    EXPECT_EQ(plan.embeddings()[0][0].bytes()[0], std::byte{1});
  }
}

/// A tier as a disk is: it outlives the caches above it.
struct Below {
  MemoryBudget budget{1_MiB};
  HostTier tier{budget};
};

TEST(MediaPlan, LoadsFromTheTierInsteadOfEncodingAlsoAfterARestart) {
  Below below;
  {
    const Fixture first(1_MiB, &below.tier);
    MediaPlan plan = first.plan({image("a")});
    ASSERT_TRUE(plan.commit(0, output(7), Duration(50)).has_value());
    EXPECT_EQ(first.reuse->stats().encoder_archive.kept, 1U);
  }
  const Fixture second(1_MiB, &below.tier);
  const MediaPlan plan = second.plan({image("a"), image("b"), image("a")});
  EXPECT_EQ(plan.to_encode(), (Items{1}));
  EXPECT_EQ(plan.sources()[0], MediaSource::kLoaded);
  EXPECT_EQ(plan.sources()[2], MediaSource::kRepeated);
  const MediaPlan again = second.plan({image("a")});
  EXPECT_EQ(again.sources(), (Sources{MediaSource::kReused})) << "it went up into memory";
  EXPECT_TRUE(std::ranges::equal(again.embeddings()[0][0].bytes(), output(7)[0].bytes));
  EXPECT_EQ(again.embeddings()[0][0].shape(), (Shape{2, 16}));
  EXPECT_EQ(second.reuse->stats().encoder.encode_time_saved, Duration(50)) << "the cost came along";
  EXPECT_EQ(second.reuse->stats().encoder_archive.loaded, 1U);
}

TEST(MediaPlan, TenantsShareNothingInATier) {
  Below below;
  const Fixture f(1_MiB, &below.tier);
  {
    MediaPlan plan = f.plan({image("a")}, "acme");
    ASSERT_TRUE(plan.commit(0, output(1), {}).has_value());
  }
  const Fixture later(1_MiB, &below.tier);
  EXPECT_EQ(later.plan({image("a")}, "other").to_encode(), (Items{0}));
  EXPECT_TRUE(later.plan({image("a")}, "acme").to_encode().empty());
}

TEST(MediaPlan, EncodesADamagedTierEntryAgain) {
  Below below;
  const Fixture first(1_MiB, &below.tier);
  const Namespace space = first.reuse->space({.model = "m", .encoder = "e"}, TenantId()).value();
  const MediaItem a = image("a");
  const MediaItem* const media[] = {&a};
  const EncoderKey key = fingerprint(media, space, Recipes()).keys[0];
  {
    MediaPlan plan = first.plan({image("a")});
    ASSERT_TRUE(plan.commit(0, output(1), {}).has_value());
  }
  below.tier.bytes_for_test(TierKey::of(EntryClass::kEncoderOutput, key))[3] ^= std::byte{1};
  const Fixture second(1_MiB, &below.tier);
  MediaPlan plan = second.plan({image("a")});
  EXPECT_EQ(plan.to_encode(), (Items{0}));
  EXPECT_EQ(second.reuse->stats().encoder_archive.failed, 1U);
  ASSERT_TRUE(plan.commit(0, output(1), {}).has_value());
  EXPECT_EQ(second.reuse->stats().encoder_archive.kept, 1U) << "and kept again";
}

TEST(MediaPlan, DeclinesSlowLoadsUntilTheTierIsFastAgain) {
  using std::chrono::milliseconds;
  Below below;
  Fixture f;
  testing::SlowTier far(below.tier, f.clock);
  f.reuse = Reuse::create({.budget = 1_MiB, .tier = &far}, Secret{}, f.clock).value();
  const auto ask = [&] {
    f.reuse->encoder().cache().clear();  // so that the tier is asked
    MediaPlan plan = f.plan({image("a")});
    if (!plan.to_encode().empty()) {
      f.clock.advance(milliseconds(50));
      EXPECT_TRUE(plan.commit(0, output(7), milliseconds(50)).has_value());
    }
    EXPECT_TRUE(std::ranges::equal(plan.embeddings()[0][0].bytes(), output(7)[0].bytes));
    return plan.sources()[0];
  };
  EXPECT_EQ(ask(), MediaSource::kEncoded);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(), MediaSource::kLoaded);
  EXPECT_EQ(f.reuse->stats().encoder_archive.declined, 0U);

  far.latency = milliseconds(300);
  int until_known = 0;
  while (ask() == MediaSource::kLoaded && until_known < 50) ++until_known;
  EXPECT_LT(until_known, 20);
  EXPECT_EQ(f.reuse->stats().encoder_archive.declined, 1U);
  EXPECT_EQ(ask(), MediaSource::kDeclined);
  EXPECT_EQ(f.reuse->stats().loads.declined, 2U);

  far.latency = milliseconds(1);
  int until_back = 0;
  while (ask() != MediaSource::kLoaded && until_back < 1'000) ++until_back;
  EXPECT_LT(until_back, 500);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(), MediaSource::kLoaded);
  EXPECT_EQ(f.reuse->stats().encoder_archive.failed, 0U);

  f.reuse = Reuse::create({.tier = &far, .weigh_loads = false}, Secret{}, f.clock).value();
  far.latency = milliseconds(300);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(), MediaSource::kLoaded) << "as it was asked to";
}

TEST(MediaPlan, ADroppedPlanHandsItsLeadOn) {
  Fixture f;
  std::optional<MediaPlan> leader = f.plan({image("a")});
  MediaPlan follower = f.plan({image("a")});
  EXPECT_TRUE(follower.to_encode().empty());
  leader.reset();
  EXPECT_FALSE(follower.await().value());
  EXPECT_EQ(follower.to_encode(), (Items{0}));
  ASSERT_TRUE(follower.commit(0, output(1), {}).has_value());
  EXPECT_TRUE(follower.await().value());
}

TEST(MediaPlan, AnUndecodableItemFailsItsWaiters) {
  Fixture f;
  MediaPlan leader = f.plan({image("a"), image("b")});
  MediaPlan follower = f.plan({image("a")});
  leader.fail(0, {ErrorCode::kCorruption, "a ends early"});
  const auto outcome = follower.await();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().message, "a ends early");
}

// Two requests that name the same two items in opposite order: each leads one and waits for the
// other.
TEST(MediaPlan, TwoRequestsNeverDeadlock) {
  Fixture f;
  for (int round = 0; round < 50; ++round) {
    f.reuse->encoder().cache().clear();
    const auto request = [&](std::vector<MediaItem> items) {
      MediaPlan plan = f.plan(items);
      for (bool done = false; !done;) {
        for (const std::size_t item : plan.to_encode()) {
          ASSERT_TRUE(plan.commit(item, output(1), {}).has_value());
        }
        done = plan.await().value();
      }
      EXPECT_EQ(plan.embeddings().size(), 2U);
    };
    std::thread one(request, std::vector{image("a"), image("b")});
    std::thread two(request, std::vector{image("b"), image("a")});
    one.join();
    two.join();
  }
}

}  // namespace
}  // namespace afterimage
