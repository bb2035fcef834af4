// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/encoder_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "foundation/types/digest_hash.h"
#include "policy/eviction/lfu.h"
#include "policy/eviction/lru.h"
#include "testing/recording_policy.h"

namespace afterimage {
namespace {

EncoderKey key(unsigned n) {
  EncoderKey k;
  for (std::size_t i = 0; i < 4; ++i) k.bytes[i] = static_cast<std::byte>(n >> (8 * i));
  return k;
}

/// A [rows, 16] f32 tensor: 64 bytes a row, so that rows and charged bytes agree.
struct Rows {
  explicit Rows(std::uint64_t rows, unsigned fill = 1)
      : bytes(rows * 64, static_cast<std::byte>(fill)),
        views{TensorView::over(DType::kF32, Shape{rows, 16}, bytes).value()} {}
  std::vector<std::byte> bytes;
  TensorViews views;
};

/// One cache over a budget counted in rows.
struct Fixture {
  explicit Fixture(std::uint64_t budget_rows, EncoderCacheOptions options = {})
      : budget(Bytes(budget_rows * 64)),
        cache(EncoderCache::create(std::move(options), budget).value()) {}

  bool put(unsigned n, std::uint64_t rows, Duration cost = Duration(0)) {
    const auto pin = cache->insert(key(n), Rows(rows, n).views, {.cost = cost});
    cache->check_invariants();
    return pin.has_value();
  }
  bool get(unsigned n) { return cache->find(key(n)).has_value(); }
  [[nodiscard]] bool holds(unsigned n) const { return cache->info(key(n)).has_value(); }

  MemoryBudget budget;
  std::unique_ptr<EncoderCache> cache;
};

EncoderCacheOptions with_floor(std::uint64_t entries) {
  EncoderCacheOptions options;
  options.min_entries = EntryCount(entries);
  return options;
}

EncoderCacheOptions at_most(std::uint64_t entries) {
  EncoderCacheOptions options;
  options.max_entries = EntryCount(entries);
  return options;
}

TEST(EncoderCache, EvictionCandidatesExcludePinnedEntriesAndRespectTheFloor) {
  Fixture f(10, with_floor(2));
  EXPECT_FALSE(f.cache->eviction_candidate().has_value()) << "empty";
  ASSERT_TRUE(f.put(1, 2, std::chrono::seconds(1)));
  ASSERT_TRUE(f.put(2, 2, std::chrono::seconds(1)));
  EXPECT_FALSE(f.cache->eviction_candidate().has_value()) << "the floor";
  ASSERT_TRUE(f.put(3, 2, std::chrono::seconds(1)));
  const auto next = f.cache->eviction_candidate();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->resident, Bytes(6 * 64));
  EXPECT_GT(next->worth.value(), 0);
  const auto one = f.cache->find(key(1));
  const auto two = f.cache->find(key(2));
  const auto three = f.cache->find(key(3));
  EXPECT_FALSE(f.cache->eviction_candidate().has_value()) << "all in use";
}

TEST(EncoderCache, FindsAnEntryUntilItIsErased) {
  Fixture f(100);
  EXPECT_FALSE(f.get(1));
  ASSERT_TRUE(f.put(1, 10));
  {
    const auto pin = f.cache->find(key(1));
    ASSERT_TRUE(pin.has_value());
    EXPECT_EQ((*pin)->tensors()[0].shape(), (Shape{10, 16}));
    EXPECT_EQ((*pin)->tensors()[0].bytes()[0], std::byte{1});
  }
  EXPECT_EQ(f.budget.used(), Bytes(640));
  EXPECT_TRUE(f.cache->erase(key(1)));
  EXPECT_FALSE(f.cache->erase(key(1)));
  EXPECT_FALSE(f.get(1));
  EXPECT_EQ(f.budget.used(), 0_B);
}

TEST(Pin, UnpinsOnceWhereverItWasMoved) {
  Fixture f(100);
  ASSERT_TRUE(f.put(1, 1));
  {
    auto a = f.cache->find(key(1));
    Pin b = *std::move(a);
    a.reset();
    EXPECT_EQ(f.cache->info(key(1))->pins, 1U);
    const Pin c = std::move(b);
    EXPECT_EQ(f.cache->info(key(1))->pins, 1U);
    EXPECT_EQ(c->bytes(), 64_B);
  }
  EXPECT_EQ(f.cache->info(key(1))->pins, 0U);
}

TEST(EncoderCache, ServesManyThreads) {
  Fixture f(40);
  std::atomic<unsigned> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 400; ++i) {
        const unsigned n = (t + i * 7) % 20;
        const auto pin = f.cache->find(key(n));
        if (pin.has_value() && (*pin)->tensors()[0].bytes()[0] != std::byte(n)) ++wrong;
        if (!pin.has_value()) static_cast<void>(f.cache->insert(key(n), Rows(4, n).views, {}));
        if (i % 50 == 0) f.cache->evict_bytes(Bytes(256));
        if (i % 90 == 0) f.cache->erase(key(n));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0U);
  f.cache->check_invariants();
  EXPECT_GT(f.cache->stats().hits, 0U);
}

TEST(EncoderCache, StoresNothingWhileAdmissionIsBlocked) {
  Fixture f(40);
  ASSERT_TRUE(f.put(1, 4));
  f.cache->block_admission(true);
  EXPECT_EQ(f.cache->insert(key(2), Rows(4).views, {}).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(f.cache->insert(key(1), Rows(4).views, {}).error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(f.get(1)) << "what is cached stays";
  f.cache->block_admission(false);
  EXPECT_TRUE(f.put(2, 4));
}

TEST(EncoderCache, DeepstackPlanesAreOneEntry) {
  Fixture f(100);
  const Rows base(10, 1);
  const Rows plane(10, 2);
  const TensorViews both = {base.views[0], plane.views[0]};
  ASSERT_TRUE(f.cache->insert(key(1), both, {}).has_value());
  EXPECT_EQ(f.budget.used(), Bytes(1280));
  const auto pin = f.cache->find(key(1));
  ASSERT_EQ((*pin)->tensors().size(), 2U);
  EXPECT_EQ((*pin)->tensors()[1].bytes()[0], std::byte{2});
}

TEST(EncoderCache, CountsAccessesAgentsBytesAndMilliseconds) {
  Fixture f(100);
  const Duration cost = std::chrono::milliseconds(40);
  ASSERT_TRUE(
      f.cache
          ->insert(key(1), Rows(10).views, {.modality = Modality::kVideo, .cost = cost}, AgentId(7))
          .has_value());
  for (const AgentId agent : {AgentId(7), AgentId(8), AgentId(8), kNoAgent, AgentId(7)}) {
    EXPECT_TRUE(f.cache->find(key(1), agent).has_value());
  }
  const EncoderEntryInfo info = f.cache->info(key(1)).value();
  EXPECT_EQ(info.access_count, 5U);
  EXPECT_EQ(info.agents, 2U);
  EXPECT_EQ(info.facts.modality, Modality::kVideo);
  EXPECT_FALSE(f.get(2));
  const EncoderCacheStats stats = f.cache->stats();
  EXPECT_EQ(stats.hits, 5U);
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.bytes_reused, Bytes(5 * 640));
  EXPECT_EQ(to_milliseconds(stats.encode_time_saved), 200);
}

// Six agents asked about a picture before their text: KV covered it, and it had one agent and no use.
TEST(EncoderCache, Seed000_AUseThatKvCoversCountsWithItsAgent) {
  Fixture f(10);
  ASSERT_TRUE(f.cache->insert(key(1), Rows(5).views, {}, AgentId(1)).has_value());
  for (const AgentId agent : {AgentId(1), AgentId(2), kNoAgent, AgentId(3)}) {
    f.cache->note_covered(key(1), agent);
  }
  f.cache->note_covered(key(2), AgentId(4));
  EXPECT_EQ(f.cache->info(key(1))->access_count, 4U);
  EXPECT_EQ(f.cache->info(key(1))->agents, 3U);
  EXPECT_FALSE(f.cache->info(key(2)).has_value());
  const EncoderCacheStats stats = f.cache->stats();
  EXPECT_EQ(stats.covered, 4U) << "not of what is not here";
  EXPECT_EQ(stats.bytes_covered, Bytes(4 * 320));
  EXPECT_EQ(stats.hits, 0U) << "nothing was looked up";
  EXPECT_EQ(stats.misses, 0U);
  const auto named = seed_named_stats(stats);
  EXPECT_EQ(named[0], (std::pair<std::string_view, double>("visual_cache_hits", 4)));
  EXPECT_EQ(named[2], (std::pair<std::string_view, double>("visual_cache_hit_rate", 1)));
  EXPECT_EQ(named[3], (std::pair<std::string_view, double>("visual_vram_saved_bytes", 1280)));
  f.cache->check_invariants();
}

/// It is not what keeps an entry: KV serves the request without it.
TEST(EncoderCache, ACoveredUseKeepsNoEntry) {
  EncoderCacheOptions options;
  options.policy = make_policy("lru").value();
  Fixture f(10, std::move(options));
  ASSERT_TRUE(f.put(1, 5));
  ASSERT_TRUE(f.put(2, 5));
  f.cache->note_covered(key(1), kNoAgent);
  ASSERT_TRUE(f.put(3, 5));
  EXPECT_FALSE(f.holds(1));
  EXPECT_TRUE(f.holds(2));
}

TEST(EncoderCache, AgentsAreCountedUpToALimit) {
  Fixture f(100);
  ASSERT_TRUE(f.put(1, 10));
  for (std::uint32_t agent = 0; agent < 2000; ++agent) {
    ASSERT_TRUE(f.cache->find(key(1), AgentId(agent * 7919 % 2000)).has_value());
  }
  EXPECT_EQ(f.cache->info(key(1))->agents, 1024U);
}

TEST(EncoderCache, StatsCarryTheSeedsNames) {
  Fixture f(100);
  ASSERT_TRUE(f.put(1, 10));
  EXPECT_TRUE(f.get(1));
  EXPECT_FALSE(f.get(2));
  const auto named = seed_named_stats(f.cache->stats());
  const std::vector<std::pair<std::string_view, double>> expected = {
      {"visual_cache_hits", 1},
      {"visual_cache_misses", 1},
      {"visual_cache_hit_rate", 0.5},
      {"visual_vram_saved_bytes", 640},
      {"visual_cache_entries", 1}};
  EXPECT_EQ(named, expected);
}

TEST(EncoderCache, TheEntryLimitHolds) {
  Fixture f(100, at_most(2));
  ASSERT_TRUE(f.put(1, 1));
  ASSERT_TRUE(f.put(2, 1));
  ASSERT_TRUE(f.put(3, 1));
  EXPECT_EQ(f.cache->stats().entries, EntryCount(2));
  EXPECT_FALSE(f.holds(1));
}

TEST(EncoderCache, RefusesALimitOfZeroEntries) {
  MemoryBudget budget(1_KiB);
  EXPECT_EQ(EncoderCache::create(at_most(0), budget).error().code, ErrorCode::kInvalidArgument);
}

// Seed 000 V17: when nothing could be evicted, an entry was silently stored over the budget.
TEST(EncoderCache, V17_PinnedEntriesStayAndTheNewEntryIsRefused) {
  Fixture f(10);
  ASSERT_TRUE(f.put(1, 6));
  {
    const Pin held = f.cache->find(key(1)).value();
    EXPECT_FALSE(f.put(2, 6));
    EXPECT_TRUE(f.holds(1));
    EXPECT_EQ(f.cache->stats().refused_in_use, 1U);
    EXPECT_TRUE(f.put(3, 4));
  }
  EXPECT_TRUE(f.put(2, 6)) << "an unpinned entry can be evicted";
  EXPECT_FALSE(f.holds(1) && f.holds(3));
}

TEST(EncoderCache, AnErasedEntryLivesUntilItsLastPin) {
  Fixture f(10);
  ASSERT_TRUE(f.put(1, 6));
  auto held = f.cache->find(key(1));
  f.cache->clear();
  f.cache->check_invariants();
  EXPECT_FALSE(f.holds(1));
  EXPECT_EQ((*held)->tensors()[0].bytes()[0], std::byte{1});
  EXPECT_EQ(f.budget.used(), Bytes(6 * 64)) << "its bytes still exist, so they stay charged";
  EXPECT_TRUE(f.put(1, 4)) << "its key can be used again";
  held.reset();
  f.cache->check_invariants();
  EXPECT_EQ(f.budget.used(), Bytes(4 * 64));
}

TEST(EncoderCache, AFailedInsertEvictsNothing) {
  Fixture f(10);
  ASSERT_TRUE(f.put(1, 3));
  ASSERT_TRUE(f.put(2, 3));
  ASSERT_TRUE(f.put(3, 3));
  const Pin held = f.cache->find(key(2)).value();
  EXPECT_FALSE(f.put(4, 8));
  EXPECT_TRUE(f.holds(1) && f.holds(2) && f.holds(3));
}

TEST(EncoderCache, RefusesWhenOthersHoldTheBudget) {
  Fixture f(10);
  const Reservation other = f.budget.reserve(Bytes(8 * 64)).value();
  EXPECT_FALSE(f.put(1, 3));
  EXPECT_TRUE(f.put(1, 2));
  EXPECT_LE(f.budget.peak(), f.budget.capacity());
}

// Seed 000 V16: clear() reset the counters, and evictions had none.
TEST(EncoderCache, V16_ClearKeepsTheCounters) {
  Fixture f(10);
  ASSERT_TRUE(f.put(1, 3));
  EXPECT_TRUE(f.get(1));
  f.cache->clear();
  EXPECT_EQ(f.cache->stats().hits, 1U);
  EXPECT_EQ(f.cache->stats().entries, EntryCount(0));
  EXPECT_EQ(f.cache->stats().evictions, 0U);
}

TEST(EncoderCache, DiscardingADamagedEntryRetractsItsHit) {
  Fixture f(10);
  ASSERT_TRUE(f.put(1, 3, Duration(5)));
  {
    const Pin pin = f.cache->find(key(1)).value();
    f.cache->discard_damaged(pin.slot());
  }
  EXPECT_FALSE(f.holds(1));
  EXPECT_EQ(f.cache->stats().hits, 0U);
  EXPECT_EQ(f.cache->stats().misses, 1U);
  EXPECT_EQ(f.cache->stats().encode_time_saved, Duration(0));
  EXPECT_EQ(f.budget.used(), 0_B);
}

TEST(EncoderCache, EvictBytesStopsAtTheFloorAndTrimmingDoesNot) {
  Fixture f(10, with_floor(3));
  for (unsigned n = 1; n <= 5; ++n) ASSERT_TRUE(f.put(n, 2));
  EXPECT_EQ(f.cache->evict_bytes(1_GiB), Bytes(2 * 128));
  EXPECT_EQ(f.cache->stats().entries, EntryCount(3));
  f.budget.set_capacity(Bytes(128));
  EXPECT_EQ(f.cache->trim_to_budget(), Bytes(2 * 128));
  EXPECT_EQ(f.cache->stats().entries, EntryCount(1));
  f.cache->check_invariants();
}

TEST(EncoderCache, ReportsARequestsUsesTogether) {
  using ::testing::ElementsAre;
  const auto log = std::make_shared<testing::RecordingPolicy::Log>();
  EncoderCacheOptions options;
  options.policy = std::make_unique<testing::RecordingPolicy>(log);
  Fixture f(100, std::move(options));
  ASSERT_TRUE(f.put(1, 1));
  EXPECT_THAT(log->take(), ElementsAre("insert a"))
      << "outside any request: reported with its last pin";
  {
    const Pin old = f.cache->find(key(1)).value();
    const Pin fresh = f.cache->insert(key(2), Rows(3).views, {.cost = Duration(7)}).value();
    const Pin again = f.cache->find(key(2)).value();
    EXPECT_THAT(log->take(), ElementsAre());
    f.cache->note_request({.now = std::chrono::seconds(4)}, std::vector{old.slot(), fresh.slot()});
    EXPECT_THAT(log->take(), ElementsAre("request", "insert b", "touch a"));
    f.cache->check_invariants();
  }
  EXPECT_EQ(log->requests.at(0).now, std::chrono::seconds(4));
  EXPECT_EQ(log->facts.at("b").cost, Duration(7));
  EXPECT_EQ(log->facts.at("b").key, DigestHash()(key(2)));
  ASSERT_TRUE(f.get(2));
  ASSERT_TRUE(f.put(3, 1));
  EXPECT_THAT(log->take(), ElementsAre("touch b", "insert c")) << "each once";
}

TEST(EncoderCache, ARefusedInsertKeepsTheEvictionOrder) {
  std::vector<std::vector<unsigned>> orders;
  for (const bool refused : {false, true}) {
    Fixture f(10);
    const Pin in_use = f.cache->insert(key(9), Rows(5).views, {}).value();
    {
      std::vector<Pin> pins;
      std::vector<SlotId> used;
      for (unsigned n = 1; n <= 4; ++n) {
        pins.push_back(f.cache->insert(key(n), Rows(1).views, {}).value());
        used.push_back(pins.back().slot());
      }
      f.cache->note_request({}, used);
    }
    if (refused) {
      ASSERT_FALSE(f.put(5, 6));
    }
    std::vector<unsigned>& order = orders.emplace_back();
    while (f.cache->evict_bytes(1_B) > 0_B) {
      for (unsigned n = 1; n <= 4; ++n) {
        if (!f.holds(n) && std::ranges::find(order, n) == order.end()) order.push_back(n);
      }
    }
    EXPECT_EQ(order.size(), 4U);
  }
  EXPECT_EQ(orders[0], orders[1]);
}

TEST(EncoderCache, DoesNotReportErasedEntries) {
  const auto log = std::make_shared<testing::RecordingPolicy::Log>();
  EncoderCacheOptions options;
  options.policy = std::make_unique<testing::RecordingPolicy>(log);
  Fixture f(100, std::move(options));
  {
    const Pin gone = f.cache->insert(key(1), Rows(3).views, {}).value();
    ASSERT_TRUE(f.cache->erase(key(1)));
    f.cache->note_request({}, std::vector{gone.slot()});
    f.cache->check_invariants();
  }
  EXPECT_THAT(log->take(), ::testing::ElementsAre("request"));
}

// Defects of seed 000; DESIGN.md lists them.

TEST(Seed000, V1_ThousandHitsAreNotEvictedByThreeNewcomers) {
  EncoderCacheOptions options = at_most(3);
  options.policy = std::make_unique<AgedLfu>();
  Fixture f(100, std::move(options));
  ASSERT_TRUE(f.put(1, 1));
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(f.get(1));
  for (unsigned n = 2; n < 50; ++n) ASSERT_TRUE(f.put(n, 1));
  EXPECT_TRUE(f.holds(1));
}

// The seed's controller lacked the method that the cache called: the first eviction raised.
TEST(Seed000, V2_TheFloorOfAQueueServesTheFirstEviction) {
  EncoderCacheOptions options;
  options.min_entries = entries_in_flight(1, std::chrono::seconds(1), 1);
  options.max_entries = EntryCount(3);
  Fixture f(100, std::move(options));
  for (unsigned n = 1; n <= 4; ++n) ASSERT_TRUE(f.put(n, 1));
  EXPECT_EQ(f.cache->stats().evictions, 1U);
}

TEST(Seed000, V3_AFloorAboveTheCapacityDoesNotLoop) {
  EncoderCacheOptions options = with_floor(100);
  options.max_entries = EntryCount(3);
  Fixture f(100, std::move(options));
  for (unsigned n = 1; n < 10; ++n) EXPECT_TRUE(f.put(n, 1)) << "each insert evicts one";
  EXPECT_EQ(f.cache->stats().entries, EntryCount(3));
}

TEST(Seed000, V4_AnItemLargerThanTheBudgetEvictsNothing) {
  Fixture f(10);
  ASSERT_TRUE(f.put(1, 5));
  const auto refused = f.cache->insert(key(2), Rows(11).views, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(refused.error().message,
            "an encoder output of 704 bytes is larger than the whole budget of 640");
  EXPECT_TRUE(f.holds(1));
  EXPECT_EQ(f.cache->stats().refused_oversize, 1U);
}

TEST(Seed000, V5_OverwritingEvictsNoOtherEntry) {
  Fixture f(10, at_most(2));
  ASSERT_TRUE(f.put(1, 5));
  ASSERT_TRUE(f.put(2, 5));
  ASSERT_TRUE(f.put(1, 4));
  EXPECT_TRUE(f.holds(1) && f.holds(2));
  EXPECT_EQ(f.budget.used(), Bytes(9 * 64));
  ASSERT_TRUE(f.put(2, 6));
  EXPECT_TRUE(f.holds(1) && f.holds(2));
  EXPECT_EQ(f.cache->stats().evictions, 0U);
}

TEST(Seed000, V5_AnOverwriteThatDoesNotFitLeavesTheOldEntry) {
  Fixture f(10);
  ASSERT_TRUE(f.put(1, 4));
  ASSERT_TRUE(f.put(2, 4));
  const Pin held = f.cache->find(key(2)).value();
  EXPECT_FALSE(f.put(1, 7));
  EXPECT_TRUE(f.holds(1));
}

TEST(Seed000, V5_PinsOfAnOverwrittenEntryKeepTheOldBytes) {
  Fixture f(20);
  const Pin old = f.cache->insert(key(1), Rows(4, 1).views, {}).value();
  const Pin fresh = f.cache->insert(key(1), Rows(4, 2).views, {}).value();
  f.cache->check_invariants();
  EXPECT_EQ(old->tensors()[0].bytes()[0], std::byte{1});
  EXPECT_EQ(fresh->tensors()[0].bytes()[0], std::byte{2});
  EXPECT_EQ(f.budget.used(), Bytes(8 * 64));
}

TEST(Seed000, V6_TheFloorNeverExceedsTheBudget) {
  Fixture f(10, with_floor(100));
  for (unsigned n = 1; n <= 40; ++n) {
    f.put(n, 3);
    ASSERT_LE(f.budget.used(), f.budget.capacity());
  }
  EXPECT_LE(f.budget.peak(), f.budget.capacity());
  EXPECT_EQ(f.cache->stats().entries, EntryCount(3));
}

TEST(Seed000, V6_ALargeNewEntryDoesNotEvictBelowTheFloor) {
  Fixture f(10, with_floor(4));
  for (unsigned n = 1; n <= 5; ++n) ASSERT_TRUE(f.put(n, 2));
  EXPECT_FALSE(f.put(6, 6)) << "would leave two besides itself";
  EXPECT_EQ(f.cache->stats().refused_by_floor, 1U);
  EXPECT_EQ(f.cache->stats().entries, EntryCount(5));
  EXPECT_TRUE(f.put(6, 4)) << "leaves three besides itself";
  EXPECT_EQ(f.cache->stats().entries, EntryCount(4));
}

TEST(Seed000, V8_AVideoOfRankFourIsChargedInFull) {
  MemoryBudget budget(8_MiB);
  const auto cache = EncoderCache::create({}, budget).value();
  const std::vector<std::byte> bytes(4'194'304);
  const TensorViews video = {TensorView::over(DType::kF32, Shape{16, 16, 64, 64}, bytes).value()};
  ASSERT_TRUE(cache->insert(key(1), video, {.modality = Modality::kVideo}).has_value());
  EXPECT_EQ(budget.used(), Bytes(4'194'304));
}

TEST(Seed000, V10_TheCallerCannotChangeStoredBytes) {
  Fixture f(100);
  Rows given(2, 5);
  ASSERT_TRUE(f.cache->insert(key(1), given.views, {}).has_value());
  std::ranges::fill(given.bytes, std::byte{6});
  const Pin found = f.cache->find(key(1)).value();
  EXPECT_EQ(found->tensors()[0].bytes()[0], std::byte{5});
  EXPECT_TRUE(found->intact());
}

/// LRU that counts the calls to it.
class CountingLru final : public EvictionPolicy {
 public:
  explicit CountingLru(std::uint64_t& calls) : calls_(calls) {}
  [[nodiscard]] std::string_view name() const override { return "counting"; }
  void insert(SlotId slot, const EntryFacts& facts) override { counted().insert(slot, facts); }
  void touch(SlotId slot) override { counted().touch(slot); }
  void erase(SlotId slot, RemovalReason why) override { counted().erase(slot, why); }
  void park(SlotId slot) override { counted().park(slot); }
  void unpark(SlotId slot) override { counted().unpark(slot); }
  [[nodiscard]] std::optional<SlotId> victim() override { return counted().victim(); }

 private:
  Lru& counted() {
    ++calls_;
    return inner_;
  }
  std::uint64_t& calls_;
  Lru inner_;
};

// Each store of the seed summed up all entries.
TEST(Seed000, V14_AStoreCostsTheSameHoweverManyEntriesThereAre) {
  const auto calls_of_one_store = [](unsigned entries) {
    std::uint64_t calls = 0;
    EncoderCacheOptions options;
    options.policy = std::make_unique<CountingLru>(calls);
    Fixture f(entries, std::move(options));
    for (unsigned n = 0; n < entries; ++n) EXPECT_TRUE(f.put(n, 1));
    const std::uint64_t before = calls;
    EXPECT_TRUE(f.put(entries, 1)) << "each insert evicts one";
    return calls - before;
  };
  EXPECT_EQ(calls_of_one_store(10), calls_of_one_store(1000));
}

TEST(Seed000, V12_SavedTimeIsTimeAndNotBytes) {
  Fixture f(100);
  ASSERT_TRUE(f.put(1, 10, std::chrono::milliseconds(3)));
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(f.get(1));
  EXPECT_EQ(to_milliseconds(f.cache->stats().encode_time_saved), 3000);
}

}  // namespace
}  // namespace afterimage
