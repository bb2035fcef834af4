// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "afterimage/experiment/question_set.h"
#include "afterimage/platform/clock.h"
#include "afterimage/result.h"
#include "afterimage/semantic/answer_cache.h"

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

/// What a set of questions met in the answer cache.
struct TrialReport {
  std::uint64_t questions = 0;
  std::uint64_t engine_calls = 0;
  std::array<RungTally, kTextRungs.size()> rungs;
  std::array<Tally, kWordings> wordings;  // of what is no trap
  /// Served: by an answer to anything but the same question of the same request, right or not.
  std::array<Tally, kTraps> traps;
  std::uint64_t unsafe = 0;       // answers served to anything but their own question, or not true
  std::vector<WrongReuse> wrong;  // of those, the first hundred

  [[nodiscard]] Tally all_traps() const;
};

/// Asks every question of the set in order, through scopes and the answer cache as a server would,
/// of an engine that always tells the truth. So whatever is wrong is reuse's.
///
/// Errors   Of drawing and of the cache.
Result<TrialReport> run_trial(const QuestionSet& set, const LookupRules& rules, const Clock& clock);

/// For a person, and for programs: {"questions", "engine_calls", "rungs": [{"rung", "served",
/// "wrong", "wrong_95": [low, high]}], "wordings": […], "traps": [{"trap", "asked", "served"}],
/// "unsafe"}.
std::string to_table(const TrialReport& report);
std::string to_json(const TrialReport& report);

}  // namespace afterimage
