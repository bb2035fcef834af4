// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "afterimage/answer_cache.h"
#include "afterimage/clock.h"
#include "afterimage/memory_budget.h"
#include "caches/answers/answer_archive.h"
#include "caches/answers/testing/questions.h"
#include "foundation/platform/testing/manual_wall_clock.h"

namespace afterimage::testing {

inline constexpr const char* kErasures = "answers.erased";

/// A machine with a tier that outlives its processes; one process runs at a time, on manual clocks.
template <typename TierUnder, typename FilesUnder>
struct ArchiveMachine {
  explicit ArchiveMachine(WallTime now = WallTime(std::chrono::seconds(1'000'000))) : wall(now) {
    start();
  }

  /// Ends the running process, losing its memory, and starts another.
  void start() {
    archive.reset();
    cache.reset();
    cache = AnswerCache::create({}, budget, clock).value();
    archive = AnswerArchive::open({.tier = tier,
                                   .transfer = transfer,
                                   .cache = *cache,
                                   .files = files,
                                   .erasures = kErasures,
                                   .clock = clock,
                                   .wall = wall})
                  .value();
  }
  void pass(Duration time) {
    clock.advance(time);
    wall.set(wall.now() + time);
  }
  Result<void> put(const ScopeId& where, const std::string& words, const std::string& text,
                   const AnswerFacts& facts = {}) const {
    Question question(where, words);
    return archive->insert(question, answer(text), facts);
  }
  Result<void> put(const std::string& words, const std::string& text,
                   const AnswerFacts& facts = {}) const {
    return put(scope(1), words, text, facts);
  }
  /// Restores from the archive into the cache; "" if there is none.
  [[nodiscard]] std::string restored(const ScopeId& where, const std::string& words,
                                     const LookupRules& rules = {}) const {
    Question question(where, words);
    const auto found = archive->restore(question, rules);
    return found && found->answer ? found->answer->text : "";
  }
  [[nodiscard]] std::string restored(const std::string& words,
                                     const LookupRules& rules = {}) const {
    return restored(scope(1), words, rules);
  }
  [[nodiscard]] std::string cached(const ScopeId& where, const std::string& words) const {
    Question question(where, words);
    return cache->peek(question, {.serve = MatchLevel::kExact}).answer.value_or(Answer{}).text;
  }
  [[nodiscard]] std::string cached(const std::string& words) const {
    return cached(scope(1), words);
  }
  [[nodiscard]] bool erase(const std::string& words) const {
    Question question(scope(1), words);
    return archive->erase(question).has_value();
  }

  MemoryBudget below{64_MiB};
  MemoryBudget transfer{1_MiB};
  MemoryBudget budget{1_MiB};
  ManualClock clock;
  testing::ManualWallClock wall;
  TierUnder tier{below};
  FilesUnder files;
  std::unique_ptr<AnswerCache> cache;
  std::unique_ptr<AnswerArchive> archive;
};

}  // namespace afterimage::testing
