// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Plans of processes that share a tier: what one encodes, the others wait for.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "afterimage/reuse.h"
#include "afterimage/tier.h"
#include "runtime/reuse/plan.h"
#include "runtime/reuse/testing/media.h"
#include "testing/leases_in_memory.h"

namespace afterimage {
namespace {

using testing::image;
using testing::LeasesInMemory;
using testing::output;

using Items = std::vector<std::size_t>;

class SharedPlan : public ::testing::Test {
 protected:
  struct Process {
    explicit Process(SharedPlan& world)
        : reuse(Reuse::create({.budget = 1_MiB,
                               .tier = &world.tier,
                               .weigh_loads = false,
                               .leases = &world.turns},
                              Secret{}, world.clock)
                    .value()) {}
    [[nodiscard]] MediaPlan plan(const std::vector<const char*>& names) const {
      std::vector<MediaItem> items;
      for (const char* name : names) items.push_back(image(name));
      std::vector<const MediaItem*> media;
      for (const MediaItem& item : items) media.push_back(&item);
      const Namespace space = reuse->space({.model = "m", .encoder = "e"}, TenantId("")).value();
      return reuse->plan_media(fingerprint(media, space, Recipes()), "");
    }
    std::unique_ptr<Reuse> reuse;
  };

  ManualClock clock;
  MemoryBudget budget{1_MiB};
  HostTier tier{budget};
  LeasesInMemory turns;
};

TEST_F(SharedPlan, WaitsForAnotherProcessAndLoadsItsOutput) {
  const Process one(*this);
  const Process other(*this);
  MediaPlan first = one.plan({"a"});
  EXPECT_EQ(first.to_encode(), (Items{0}));
  MediaPlan second = other.plan({"a"});
  EXPECT_TRUE(second.to_encode().empty());
  turns.meanwhile = [&](std::uint32_t attempt) {
    if (attempt == 3) EXPECT_TRUE(first.commit(0, output(7), Duration(50)).has_value());
  };
  EXPECT_TRUE(second.await().value());
  EXPECT_EQ(second.sources(), (std::vector{MediaSource::kLoaded}));
  EXPECT_EQ(second.embeddings()[0][0].bytes()[0], std::byte{7});
  EXPECT_EQ(turns.waits, 4);
  EXPECT_EQ(turns.held(), 0U);
}

TEST_F(SharedPlan, TakesOverFromAProcessThatDied) {
  const Process one(*this);
  const Process other(*this);
  std::optional<MediaPlan> first = one.plan({"a"});
  MediaPlan second = other.plan({"a"});
  turns.meanwhile = [&](std::uint32_t attempt) {
    if (attempt == 2) turns.expire();
  };
  EXPECT_FALSE(second.await().value()) << "it is our turn";
  ASSERT_EQ(second.to_encode(), (Items{0}));
  ASSERT_TRUE(second.commit(0, output(1), Duration(1)).has_value());
  EXPECT_TRUE(second.await().value());
  // And the one who comes back late does no harm.
  ASSERT_TRUE(first->commit(0, output(1), Duration(1)).has_value());
  EXPECT_TRUE(other.plan({"a"}).to_encode().empty());
}

TEST_F(SharedPlan, TakesOverFromARequestThatGaveUp) {
  const Process one(*this);
  const Process other(*this);
  std::optional<MediaPlan> first = one.plan({"a"});
  MediaPlan second = other.plan({"a"});
  turns.meanwhile = [&](std::uint32_t) { first.reset(); };
  EXPECT_FALSE(second.await().value());
  EXPECT_EQ(second.to_encode(), (Items{0}));
}

TEST_F(SharedPlan, DoesNotWaitWithoutALeaseService) {
  const Process one(*this);
  const Process other(*this);
  const MediaPlan first = one.plan({"a"});
  turns.lost = true;
  EXPECT_EQ(other.plan({"a"}).to_encode(), (Items{0}));
  EXPECT_EQ(turns.waits, 0);
}

TEST_F(SharedPlan, EncodesItselfAfterTheLongestWait) {
  const Process one(*this);
  const Process other(*this);
  const MediaPlan first = one.plan({"a"});
  turns.timeout = 5;
  MediaPlan second = other.plan({"a"});
  EXPECT_FALSE(second.await().value());
  EXPECT_EQ(second.to_encode(), (Items{0}));
  EXPECT_EQ(turns.waits, 6);
}

TEST_F(SharedPlan, ACancelledRequestStopsWaiting) {
  const Process one(*this);
  const Process other(*this);
  const MediaPlan first = one.plan({"a"});
  MediaPlan second = other.plan({"a"});
  std::stop_source stop;
  turns.meanwhile = [&](std::uint32_t) { stop.request_stop(); };
  EXPECT_EQ(second.await(stop.get_token()).error().code, ErrorCode::kCancelled);
}

TEST_F(SharedPlan, FindsWhatWasStoredBetweenLookUpAndClaim) {
  const Process one(*this);
  {
    MediaPlan first = one.plan({"a"});
    ASSERT_TRUE(first.commit(0, output(1), Duration(1)).has_value());
    EXPECT_EQ(turns.held(), 0U);
  }
  const Process other(*this);
  EXPECT_TRUE(other.plan({"a"}).to_encode().empty());
  EXPECT_EQ(turns.held(), 0U) << "and the turn is nobody's";
}

// Two requests of one process, and two pictures that another process is at: each request looks for
// one, and waits for the other's.
TEST_F(SharedPlan, RequestsThatNeedEachOthersItemsAllEnd) {
  const Process one(*this);
  const Process other(*this);
  MediaPlan theirs = one.plan({"a", "b"});
  MediaPlan ab = other.plan({"a"});
  MediaPlan ba = other.plan({"b", "a"});  // leads b, and waits for the request that leads a
  EXPECT_TRUE(ab.to_encode().empty());
  EXPECT_TRUE(ba.to_encode().empty());
  std::atomic<bool> done = false;
  std::thread waits([&] {
    EXPECT_TRUE(ba.await().value());
    done = true;
  });
  ASSERT_TRUE(theirs.commit(1, output(2), Duration(1)).has_value());
  ASSERT_TRUE(theirs.commit(0, output(1), Duration(1)).has_value());
  EXPECT_TRUE(ab.await().value());
  waits.join();
  EXPECT_TRUE(done);
  EXPECT_EQ(ba.sources(), (std::vector{MediaSource::kLoaded, MediaSource::kAwaited}));
}

TEST_F(SharedPlan, ManyProcessesEncodeEachPictureOnce) {
  constexpr int kProcesses = 4;
  const std::vector<const char*> names{"a", "b", "c", "d", "e", "f"};
  std::atomic<int> encoded = 0;
  std::vector<std::unique_ptr<Process>> processes;
  for (int i = 0; i < kProcesses; ++i) processes.push_back(std::make_unique<Process>(*this));
  std::vector<std::thread> threads;
  for (int i = 0; i < 2 * kProcesses; ++i) {
    threads.emplace_back([&, i] {
      std::vector<const char*> mine = names;
      std::rotate(mine.begin(), mine.begin() + i % 6, mine.end());
      MediaPlan plan = processes[static_cast<std::size_t>(i % kProcesses)]->plan(mine);
      for (bool done = false; !done;) {
        for (const std::size_t item : plan.to_encode()) {
          ++encoded;
          ASSERT_TRUE(plan.commit(item, output(1), Duration(1)).has_value());
        }
        done = plan.await().value();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(encoded, 6);
  EXPECT_EQ(turns.held(), 0U);
}

}  // namespace
}  // namespace afterimage
