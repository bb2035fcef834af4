// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "afterimage/answer_cache.h"
#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "caches/similarity/similarity.h"
#include "lab/datasets/question_set.h"

namespace afterimage {

struct Tally {
  std::uint64_t asked = 0;
  std::uint64_t served = 0;  // from the cache
};

struct LevelTally {
  std::uint64_t served = 0;
  std::uint64_t wrong = 0;  // of those, not the true answer
};

/// An answer served by mistake.
struct WrongReuse {
  std::string asked;
  std::string candidate;  // the question whose answer was served
  std::string given;
  std::string truth;
  Trap trap = Trap::kNone;
};

/// What similarity matching did after the text levels had missed.
struct SimilarityTally {
  SimilarityMode mode = SimilarityMode::kWatch;
  double error_budget = 0.0;  // allowed unsafe share of served answers
  std::uint64_t served = 0;
  std::uint64_t unsafe = 0;  // of those: not the true answer, or the answer to another question
  std::uint64_t traps_served = 0;
  std::uint64_t unsure = 0;    // a neighbour was found but not served
  std::uint64_t explored = 0;  // of those, could have been served
  std::uint64_t vetoed = 0;    // neighbours rejected by a veto
  Evidence learned;            // results of comparing neighbours with the engine's answers

  /// Whether the measured unsafe share is within the budget, statistically.
  [[nodiscard]] bool in_budget() const;
};

/// Results of a question set against the answer cache.
struct TrialReport {
  std::uint64_t questions = 0;
  std::uint64_t engine_calls = 0;
  std::array<LevelTally, kMatchLevels.size()> levels;
  std::array<Tally, kWordings> wordings;  // questions that are no trap
  /// served: by an answer to anything but the same question in the same request, right or wrong
  std::array<Tally, kTraps> traps;
  std::uint64_t unsafe = 0;       // by text levels: the answer to another question, or not true
  std::vector<WrongReuse> wrong;  // the first hundred unsafe answers
  std::optional<SimilarityTally> similarity;

  [[nodiscard]] Tally all_traps() const;
};

struct TrialRules {
  LookupRules text;
  /// Absent: no similarity matching.
  std::optional<SimilarityMode> similarity = SimilarityMode::kLearned;
  AcceptanceOptions acceptance;
};

/// Asks every question of the set in order, through scopes, the answer cache and similarity
/// matching as a server would, with an engine that always answers correctly. So every wrong answer
/// is caused by reuse.
///
/// Errors   Those of drawing images and of the cache.
Result<TrialReport> run_trial(const QuestionSet& set, const TrialRules& rules, const Clock& clock);

/// Human- and machine-readable: {"questions", "engine_calls", "match_levels": [{"match_level", "served", "wrong",
/// "wrong_95": [low, high]}], "similarity": {"mode", "served", "unsafe", "unsafe_95",
/// "error_budget", …} or null, "wordings": […], "traps": [{"trap", "asked", "served"}], "unsafe"}.
std::string to_table(const TrialReport& report);
std::string to_json(const TrialReport& report);

}  // namespace afterimage
