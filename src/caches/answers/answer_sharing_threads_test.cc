// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Two processes' archives over one tier and one list, each used by many threads at once.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "afterimage/host_tier.h"
#include "caches/answers/answer_archive.h"
#include "caches/answers/testing/answering_fleet.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/random.h"

namespace afterimage {
namespace {

using testing::answer;
using testing::scope;
using testing::SimulatedCell;
using testing::SimulatedServers;

constexpr std::size_t kQuestions = 3;
constexpr std::uint64_t kErasings = 40;  // of each archive's

/// The servers' cell, for whoever comes; one after the other, as servers do it.
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

/// Below both. It keeps all that it is given, so that nothing but the list stands against what was
/// erased; and whoever reads is held up before he has what he read.
class CrowdedTier final : public Tier {
 public:
  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    return kept_.put(key, meta, bytes);
  }
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override {
    auto entry = kept_.get(key, room);
    if (held_up) held_up();
    return entry;
  }
  Result<void> erase(const TierKey&) override {
    return fail(ErrorCode::kUnavailable, "it keeps all");
  }
  Result<void> flush() override { return kept_.flush(); }
  [[nodiscard]] bool may_contain(const TierKey& key) const override {
    return kept_.may_contain(key);
  }
  [[nodiscard]] TierStats stats() const override { return kept_.stats(); }

  static thread_local std::function<void()> held_up;

 private:
  MemoryBudget budget_{64_MiB};
  HostTier kept_{budget_};
};
thread_local std::function<void()> CrowdedTier::held_up;

/// What both have. Answers are numbers that nobody draws twice; which of them must not be given any
/// more is known of each question.
struct CrowdedWorld {
  void erased(std::size_t question, std::uint64_t before) {
    std::uint64_t known = floor[question];
    while (known < before && !floor[question].compare_exchange_weak(known, before)) {
    }
  }

  /// Now and then until somebody has erased something, or for a while.
  void linger(Rng& rng) const {
    if (!rng.chance(0.2)) return;
    const std::uint64_t seen = erasings;
    for (int turn = 0; turn < 500 && erasings == seen; ++turn) std::this_thread::yield();
  }

  ManualClock clock;
  ManualWallClock wall{WallTime(std::chrono::seconds(1'000'000))};
  CrowdedTier tier;
  CrowdedCell cell;
  std::atomic<std::uint64_t> next = 1;
  std::array<std::atomic<std::uint64_t>, kQuestions> floor{};
  std::atomic<std::uint64_t> given = 0;
  std::atomic<std::uint64_t> erasings = 0;
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

  /// Some time passes for everybody with each of them: leases end in the middle of everything.
  void erase_now_and_then(Rng rng) {
    for (std::uint64_t i = 0; i < kErasings; ++i) {
      const std::uint64_t before = world_.next;
      const std::size_t which = rng.below(kQuestions + 1);
      if (which == kQuestions) {
        if (archive_->erase(AnswerFilter{.tag = "a tag"}).has_value()) {
          for (std::size_t all = 0; all < kQuestions; ++all) world_.erased(all, before);
          ++world_.erasings;
        }
      } else {
        Question question(scope(1), words(which));
        if (archive_->erase(question).has_value()) {
          world_.erased(which, before);
          ++world_.erasings;
        }
      }
      // And something is there to be erased the next time.
      const std::uint64_t given = world_.given;
      for (int turn = 0; turn < 10'000 && world_.given < given + 5; ++turn) {
        std::this_thread::yield();
      }
    }
    --world_.erasers;
  }
  /// What is drawn after the moment was taken is newer than whatever was drawn before an erasing
  /// began that this moment does not know of.
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
  void learn() {
    while (world_.erasers > 0) {
      EXPECT_TRUE(archive_->refresh().has_value());
      std::this_thread::yield();
    }
  }
  /// What may not be given any more is looked at as late as can be: when all but the archive's last
  /// word has been said.
  void ask_one(std::size_t which, Rng& rng) {
    std::uint64_t floor = 0;
    const auto held_up = [&] {
      world_.linger(rng);
      floor = world_.floor[which];
    };
    const AnswerArchive::ReadLease before = archive_->read_lease();
    Question question(scope(1), words(which));
    std::string text;
    if (auto found = cache_->find(question, {.serve = TextRung::kExact}); found.answer) {
      held_up();
      if (archive_->may_give(before)) text = found.answer->text;
    } else {
      CrowdedTier::held_up = held_up;
      const auto restored = archive_->restore(question, {.serve = TextRung::kExact});
      CrowdedTier::held_up = nullptr;
      if (restored.has_value()) text = restored->answer.value().text;
    }
    if (text.empty()) return;
    ++world_.given;
    EXPECT_GE(std::stoull(text), floor) << "it was erased";
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
  MemoryFiles files_;
  InvalidationLog list_{world_.cell, Secret{std::byte{7}}};
  std::unique_ptr<AnswerCache> cache_ = AnswerCache::create({}, budget_, world_.clock).value();
  std::unique_ptr<AnswerArchive> archive_;
};

TEST(SharedAnswersOfManyThreads, NothingErasedIsGivenAfterTheErasingReturned) {
  CrowdedWorld world;
  CrowdedProcess one(world);
  CrowdedProcess other(world);
  world.erasers = 2;
  {
    std::vector<std::jthread> threads;
    std::uint64_t seed = 0;
    for (CrowdedProcess* process : {&one, &other}) {
      threads.emplace_back([=] { process->learn(); });
      threads.emplace_back([=] { process->keep(Rng(seed)); });
      threads.emplace_back([=] { process->ask(Rng(seed + 1)); });
      threads.emplace_back([=] { process->ask(Rng(seed + 2)); });
      threads.emplace_back([=] { process->erase_now_and_then(Rng(seed + 3)); });
      seed += 4;
    }
  }
  one.check();
  other.check();
  EXPECT_EQ(world.erasings, 2 * kErasings);
  EXPECT_GT(world.given, kErasings);
}

}  // namespace
}  // namespace afterimage
