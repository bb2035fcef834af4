// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Two processes' archives over one tier and one list, each used by many threads at once.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "afterimage/tier.h"
#include "caches/answers/answer_archive.h"
#include "caches/answers/testing/answering_fleet.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/random.h"
#include "foundation/platform/testing/manual_wall_clock.h"
#include "foundation/platform/testing/memory_files.h"

namespace afterimage {
namespace {

using testing::answer;
using testing::scope;
using testing::SimulatedCell;
using testing::SimulatedServers;

constexpr std::size_t kQuestions = 3;
constexpr std::uint64_t kErasures = 40;  // per archive

/// The shared cell, thread-safe: one request at a time, as a server handles them.
class CrowdedCell final : public SharedCell {
 public:
  Result<std::optional<Value>> read() override {
    const MutexLock lock(mutex_);
    return cell_.read();
  }
  Result<bool> replace(const std::optional<std::string>& expected,
                       std::span<const std::byte> next) override {
    const MutexLock lock(mutex_);
    return cell_.replace(expected, next);
  }

 private:
  SimulatedServers servers_;
  Mutex mutex_;
  SimulatedCell cell_ AFI_GUARDED_BY(mutex_){servers_};
};

/// The shared tier. It erases nothing, so that only the invalidation list protects erased answers,
/// and it delays every read before it returns.
class CrowdedTier final : public Tier {
 public:
  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    return kept_.put(key, meta, bytes);
  }
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override {
    auto entry = kept_.get(key, room);
    if (delay) delay();
    return entry;
  }
  Result<void> erase(const TierKey&) override {
    return fail(ErrorCode::kUnavailable, "this tier erases nothing");
  }
  Result<void> flush() override { return kept_.flush(); }
  [[nodiscard]] bool may_contain(const TierKey& key) const override {
    return kept_.may_contain(key);
  }
  [[nodiscard]] TierStats stats() const override { return kept_.stats(); }

  static thread_local std::function<void()> delay;

 private:
  MemoryBudget budget_{64_MiB};
  HostTier kept_{budget_};
};
thread_local std::function<void()> CrowdedTier::delay;

/// What both processes share. Answers are unique ascending numbers; `floor` has, per question, the
/// smallest number that may still be served.
struct CrowdedWorld {
  void erased(std::size_t question, std::uint64_t before) {
    std::uint64_t known = floor[question];
    while (known < before && !floor[question].compare_exchange_weak(known, before)) {
    }
  }

  /// Sometimes waits until another thread has erased something, or for a while.
  void linger(Rng& rng) const {
    if (!rng.chance(0.2)) return;
    const std::uint64_t seen = erasures;
    for (int spin = 0; spin < 500 && erasures == seen; ++spin) std::this_thread::yield();
  }

  ManualClock clock;
  testing::ManualWallClock wall{WallTime(std::chrono::seconds(1'000'000))};
  CrowdedTier tier;
  CrowdedCell cell;
  std::atomic<std::uint64_t> next = 1;
  std::array<std::atomic<std::uint64_t>, kQuestions> floor{};
  std::atomic<std::uint64_t> served = 0;
  std::atomic<std::uint64_t> erasures = 0;
  std::atomic<int> erasers = 0;
};

class CrowdedProcess {
 public:
  explicit CrowdedProcess(CrowdedWorld& world) : world_(world) {
    archive_ = AnswerArchive::open({.tier = world.tier,
                                    .transfer = transfer_,
                                    .cache = *cache_,
                                    .files = files_,
                                    .erasures = "",
                                    .clock = world.clock,
                                    .wall = world.wall,
                                    .shared = &list_,
                                    .wait = [this](Duration time) { world_.clock.advance(time); }})
                   .value();
  }

  /// Every erasure advances the clock, so leases expire in the middle of other operations.
  void erase_now_and_then(Rng rng) {
    for (std::uint64_t i = 0; i < kErasures; ++i) {
      const std::uint64_t before = world_.next;
      const std::size_t which = rng.below(kQuestions + 1);
      if (which == kQuestions) {
        if (archive_->erase(AnswerFilter{.tag = "a tag"}).has_value()) {
          for (std::size_t all = 0; all < kQuestions; ++all) world_.erased(all, before);
          ++world_.erasures;
        }
      } else {
        Question question(scope(1), words(which));
        if (archive_->erase(question).has_value()) {
          world_.erased(which, before);
          ++world_.erasures;
        }
      }
      // Let some answers be served before the next erasure.
      const std::uint64_t served = world_.served;
      for (int spin = 0; spin < 10'000 && world_.served < served + 5; ++spin) {
        std::this_thread::yield();
      }
    }
    --world_.erasers;
  }
  /// A number drawn after the ReadLease is larger than any drawn before an erasure that the lease
  /// does not cover.
  void keep(Rng rng) {
    while (world_.erasers > 0) {
      const std::size_t which = rng.below(kQuestions);
      const AnswerArchive::ReadLease before = archive_->read_lease();
      const Answer made = answer(std::to_string(world_.next++));
      world_.linger(rng);
      const AnswerFacts facts{.tags = {"a tag"}};
      Question question(scope(1), words(which));
      if (archive_->insert_into_cache(question, made, facts, before).has_value()) {
        archive_->keep(question, made, facts, before);
      }
    }
  }
  void ask(Rng rng) {
    while (world_.erasers > 0) ask_one(rng.below(kQuestions), rng);
  }
  void refresh() {
    while (world_.erasers > 0) {
      EXPECT_TRUE(archive_->refresh().has_value());
      std::this_thread::yield();
    }
  }
  /// Reads the floor as late as possible: just before the archive's final check.
  void ask_one(std::size_t which, Rng& rng) {
    std::uint64_t floor = 0;
    const auto delay = [&] {
      world_.linger(rng);
      floor = world_.floor[which];
    };
    const AnswerArchive::ReadLease before = archive_->read_lease();
    Question question(scope(1), words(which));
    std::string text;
    if (auto found = cache_->find(question, {.serve = MatchLevel::kExact}); found.answer) {
      delay();
      if (archive_->may_serve(before)) text = found.answer->text;
    } else {
      CrowdedTier::delay = delay;
      const auto restored = archive_->restore(question, {.serve = MatchLevel::kExact});
      CrowdedTier::delay = nullptr;
      if (restored.has_value()) text = restored->answer.value().text;
    }
    if (text.empty()) return;
    ++world_.served;
    EXPECT_GE(std::stoull(text), floor) << "served after it was erased";
  }
  void check() {
    EXPECT_TRUE(archive_->refresh().has_value());
    Rng rng(1);
    for (std::size_t which = 0; which < kQuestions; ++which) ask_one(which, rng);
    cache_->check_invariants();
  }

 private:
  static std::string words(std::size_t which) { return "question " + std::to_string(which); }

  CrowdedWorld& world_;
  MemoryBudget budget_{1_MiB};
  MemoryBudget transfer_{1_MiB};
  testing::MemoryFiles files_;
  InvalidationLog list_{world_.cell, Secret{std::byte{7}}};
  std::unique_ptr<AnswerCache> cache_ = AnswerCache::create({}, budget_, world_.clock).value();
  std::unique_ptr<AnswerArchive> archive_;
};

TEST(SharedAnswersOfManyThreads, NothingErasedIsServedAfterEraseReturned) {
  CrowdedWorld world;
  CrowdedProcess one(world);
  CrowdedProcess other(world);
  world.erasers = 2;
  {
    std::vector<std::jthread> threads;
    std::uint64_t seed = 0;
    for (CrowdedProcess* process : {&one, &other}) {
      threads.emplace_back([=] { process->refresh(); });
      threads.emplace_back([=] { process->keep(Rng(seed)); });
      threads.emplace_back([=] { process->ask(Rng(seed + 1)); });
      threads.emplace_back([=] { process->ask(Rng(seed + 2)); });
      threads.emplace_back([=] { process->erase_now_and_then(Rng(seed + 3)); });
      seed += 4;
    }
  }
  one.check();
  other.check();
  EXPECT_EQ(world.erasures, 2 * kErasures);
  EXPECT_GT(world.served, kErasures);
}

}  // namespace
}  // namespace afterimage
