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
  std::uint64_t served = 0;  // from what was kept
};

struct RungTally {
  std::uint64_t served = 0;
  std::uint64_t wrong = 0;  // of those, not the true answer
};

/// Something served that should not have been.
struct WrongReuse {
  std::string asked;
  std::string candidate;  // whose answer it got
  std::string given;
  std::string truth;
  Trap trap = Trap::kNone;
};

/// What neighbours by likeness did, after the rungs of text had found nothing.
struct SimilarityTally {
  SimilarityMode mode = SimilarityMode::kWatch;
  double error_budget = 0.0;  // of what is served, so much may be unsafe
  std::uint64_t served = 0;
  std::uint64_t unsafe = 0;  // of those: not the true answer, or that of another question
  std::uint64_t traps_served = 0;
  std::uint64_t unsure = 0;    // a neighbour was there, and not served
  std::uint64_t explored = 0;  // of those, it might have been
  std::uint64_t vetoed = 0;    // neighbours that something spoke against
  Evidence learned;            // what came of comparing

  /// What is measured is in its budget, as far as can be told.
  [[nodiscard]] bool in_budget() const;
};

/// What a set of questions met in the answer cache.
struct TrialReport {
  std::uint64_t questions = 0;
  std::uint64_t engine_calls = 0;
  std::array<RungTally, kTextRungs.size()> rungs;
  std::array<Tally, kWordings> wordings;  // of what is no trap
  /// Served: by an answer to anything but the same question of the same request, right or not.
  std::array<Tally, kTraps> traps;
  std::uint64_t unsafe = 0;       // of the rungs: served to anything but its question, or not true
  std::vector<WrongReuse> wrong;  // of all that is unsafe, the first hundred
  std::optional<SimilarityTally> similarity;

  [[nodiscard]] Tally all_traps() const;
};

struct TrialRules {
  LookupRules text;
  std::optional<SimilarityMode> similarity = SimilarityMode::kLearned;  // absent: not looked at
  AcceptanceOptions acceptance;
};

/// Asks every question of the set in order, through scopes, the answer cache and its neighbours as
/// a server would, of an engine that always tells the truth. So whatever is wrong is reuse's.
///
/// Errors   Of drawing and of the cache.
Result<TrialReport> run_trial(const QuestionSet& set, const TrialRules& rules, const Clock& clock);

/// For a person, and for programs: {"questions", "engine_calls", "rungs": [{"rung", "served",
/// "wrong", "wrong_95": [low, high]}], "likeness": {"mode", "served", "unsafe", "unsafe_95",
/// "error_budget", …} or null, "wordings": […], "traps": [{"trap", "asked", "served"}], "unsafe"}.
std::string to_table(const TrialReport& report);
std::string to_json(const TrialReport& report);

}  // namespace afterimage
