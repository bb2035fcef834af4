// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/tier.h"
#include "caches/answers/answer_archive.h"
#include "caches/answers/testing/questions.h"
#include "foundation/platform/files.h"
#include "foundation/platform/testing/manual_wall_clock.h"
#include "foundation/platform/testing/memory_files.h"
#include "testing/simulated_cell.h"

/// Simulated processes that share answers, in one thread and on one manual clock.
namespace afterimage::testing {

/// The shared tier; a test may run code between a read and its return.
class SharedTier final : public Tier {
 public:
  explicit SharedTier(MemoryBudget& budget) : kept_(budget) {}

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    return kept_.put(key, meta, bytes);
  }
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override {
    auto entry = kept_.get(key, room);
    if (after_get) std::exchange(after_get, nullptr)();
    return entry;
  }
  Result<void> erase(const TierKey& key) override {
    if (keeps_all) return fail(ErrorCode::kUnavailable, "this tier erases nothing");
    return kept_.erase(key);
  }
  Result<void> flush() override { return kept_.flush(); }
  [[nodiscard]] bool may_contain(const TierKey& key) const override {
    return !says_absent && kept_.may_contain(key);
  }
  [[nodiscard]] TierStats stats() const override { return kept_.stats(); }

  std::function<void()> after_get;
  bool says_absent = false;  // may_contain() answers false for every key
  bool keeps_all = true;     // so that only the invalidation list protects erased answers

 private:
  HostTier kept_;
};

/// What the processes share.
struct SharedWorld {
  void pass(Duration time) {
    clock.advance(time);
    wall.set(wall.now() + time);
  }
  ManualClock clock;
  testing::ManualWallClock wall{WallTime(std::chrono::seconds(1'000'000))};
  MemoryBudget below{64_MiB};
  SharedTier tier{below};
  SimulatedServers servers;
};

/// One process. It reads the shared list when a test calls refresh().
class AnsweringProcess {
  SharedWorld& world_;  // outlives the members below
  MemoryBudget budget_{1_MiB};
  MemoryBudget transfer_{1_MiB};
  std::unique_ptr<InvalidationLog> list_;
  LeaseService* turns_;

 public:
  explicit AnsweringProcess(SharedWorld& world, LeaseService* turns = nullptr)
      : world_(world), turns_(turns) {
    start();
  }

  /// Restarts the process with empty memory.
  void start() {
    archive.reset();
    cell = std::make_unique<SimulatedCell>(world_.servers);
    list_ = std::make_unique<InvalidationLog>(*cell, Secret{std::byte{7}});
    cache = AnswerCache::create({}, budget_, world_.clock).value();
    archive = AnswerArchive::open({.tier = world_.tier,
                                   .transfer = transfer_,
                                   .cache = *cache,
                                   .files = files,
                                   .erasures = "",
                                   .clock = world_.clock,
                                   .wall = world_.wall,
                                   .shared = list_.get(),
                                   .wait = [this](Duration time) { wait(time); },
                                   .turns = turns_,
                                   .on_invalidation =
                                       [this](const Invalidation& invalidation) {
                                         heard.push_back(invalidation == Invalidation()
                                                             ? "anything"
                                                             : invalidation.tag);
                                       }})
                  .value();
  }
  bool refresh() const { return archive->refresh().has_value(); }
  Result<void> put(const std::string& words, const std::string& text,
                   const AnswerFacts& facts = {}) const {
    Question question(scope(1), words);
    return archive->insert(question, answer(text), facts);
  }
  /// Looks up as a gateway does: in memory, else in the tier; "" if there is none. `between` runs
  /// after the look-up in memory and before the answer is served.
  [[nodiscard]] std::string ask(
      const std::string& words, const std::function<void()>& between = [] {}) const {
    const AnswerArchive::ReadLease before = archive->read_lease();
    Question question(scope(1), words);
    const AnswerLookup found = cache->find(question, {.serve = MatchLevel::kExact});
    between();
    if (found.answer.has_value()) {
      return archive->may_serve(before) ? found.answer->text : "";
    }
    const auto restored = archive->restore(question, {.serve = MatchLevel::kExact});
    return restored.has_value() ? restored->answer.value().text : "";
  }
  [[nodiscard]] bool erase(const AnswerFilter& filter) const {
    return archive->erase(filter).has_value();
  }
  [[nodiscard]] bool erase_answer_to(const std::string& words) const {
    Question question(scope(1), words);
    return archive->erase(question).has_value();
  }

  std::function<void(Duration)> wait = [this](Duration time) { world_.pass(time); };
  std::vector<std::string> heard;  // tags that others invalidated
  testing::MemoryFiles files;
  std::unique_ptr<SimulatedCell> cell;
  std::unique_ptr<AnswerCache> cache;
  std::unique_ptr<AnswerArchive> archive;
};

}  // namespace afterimage::testing
