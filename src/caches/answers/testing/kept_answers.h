// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "afterimage/answer_cache.h"
#include "afterimage/clock.h"
#include "afterimage/memory_budget.h"
#include "caches/answers/testing/questions.h"

namespace afterimage::testing {

/// An answer cache with budget and clock; invariants are checked at the end.
struct KeptAnswers {
  explicit KeptAnswers(Bytes capacity = 1_MiB, AnswerCacheOptions options = {})
      : budget(capacity), cache(AnswerCache::create(std::move(options), budget, clock).value()) {}
  ~KeptAnswers() { cache->check_invariants(); }
  KeptAnswers(const KeptAnswers&) = delete;
  KeptAnswers& operator=(const KeptAnswers&) = delete;

  Result<void> put(const ScopeId& where, const std::string& question, const std::string& text,
                   const AnswerFacts& facts = {.cost = std::chrono::seconds(1)}) const {
    Question asked(where, question);
    return cache->insert(asked, answer(text), facts);
  }
  Result<void> put(const std::string& question, const std::string& text,
                   const AnswerFacts& facts = {.cost = std::chrono::seconds(1)}) const {
    return put(scope(1), question, text, facts);
  }
  [[nodiscard]] AnswerLookup find(const ScopeId& where, const std::string& question,
                                  const LookupRules& rules = {}) const {
    Question asked(where, question);
    return cache->find(asked, rules);
  }
  [[nodiscard]] AnswerLookup peek(const ScopeId& where, const std::string& question,
                                  const LookupRules& rules = {}) const {
    Question asked(where, question);
    return cache->peek(asked, rules);
  }
  /// The text of the answer; "" if there is none.
  std::string get(const ScopeId& where, const std::string& question,
                  const LookupRules& rules = {}) const {
    return find(where, question, rules).answer.value_or(Answer{}).text;
  }
  std::string get(const std::string& question, const LookupRules& rules = {}) const {
    return get(scope(1), question, rules);
  }
  [[nodiscard]] MatchLevelStats level(MatchLevel which) const {
    return cache->stats().levels[static_cast<std::size_t>(which)];
  }
  /// The entry of this text in scope(1); 0 if there is none.
  [[nodiscard]] AnswerEntryId id(const std::string& question) const {
    return peek(scope(1), question, {.serve = MatchLevel::kExact}).steps.back().entry;
  }

  MemoryBudget budget;
  ManualClock clock;
  std::unique_ptr<AnswerCache> cache;
};

}  // namespace afterimage::testing
