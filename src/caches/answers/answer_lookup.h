// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/units.h"
#include "caches/answers/answer_entry.h"
#include "caches/answers/answer_record.h"
#include "caches/answers/scope.h"
#include "caches/language/canonical_text.h"

namespace afterimage {

/// One question as it is looked up: its words, and its scope. Its forms are made when a rung first
/// asks for them, and kept.
///
/// Threads  One at a time, also form().
class Question {
 public:
  Question(const ScopeId& scope, std::string text) : scope_(scope), text_(std::move(text)) {}

  [[nodiscard]] const ScopeId& scope() const { return scope_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  /// The loosest rung that may be served: as the rules say, and no further than the scope allows.
  [[nodiscard]] TextRung ceiling(TextRung serve) const { return std::min(serve, scope_.loosest); }
  /// nullopt: the rung does not apply. Valid as long as the question stays where it is.
  [[nodiscard]] std::optional<std::string_view> form(TextRung rung);

 private:
  struct Form {
    bool made = false;
    std::optional<std::string> text;
  };
  ScopeId scope_;
  std::string text_;
  std::array<Form, kTextRungs.size()> forms_;  // the exact one stays unmade: it is text_
};

/// How far a request may go.
struct LookupRules {
  /// The loosest rung that may be served from; where the scope allows less, the others are watched.
  TextRung serve = TextRung::kNear;
  /// Rungs beyond `serve`, up to this one, are looked up and counted, and never served.
  TextRung watch = TextRung::kExact;
  /// Answers that are older are not served.
  std::optional<Duration> max_age = std::nullopt;
  /// Nor are those whose time is over sooner. What is kept for ever is fresh enough for all.
  std::optional<Duration> min_fresh = std::nullopt;
};

/// What became of a look-up at one rung.
enum class Verdict : unsigned char {
  kServed,
  kJoined,      // another was asking the same, and its answer served both: see AnswerOnce
  kMissed,      // no such question
  kNotAllowed,  // matched; the rung is beyond LookupRules::serve
  kTooOld,      // matched; older than LookupRules::max_age, or not for LookupRules::min_fresh more
  kExpired,     // matched; its time was over, and it is gone
  kDamaged,     // matched; its bytes were not what they had been, and it is gone
  kUnsure,      // alike; not known to be right often enough: see SimilarityRung
  kExplored,    // alike and sure enough; the model was asked all the same, to stay sure
};
/// "served", "missed", "not_allowed", …
std::string_view to_string(Verdict verdict);

/// What was looked at on one rung, and why it was used or not.
struct MatchStep {
  TextRung rung = TextRung::kExact;
  Verdict verdict = Verdict::kMissed;
  std::string candidate;     // the question that the answer was given to, in its own words
  AnswerEntryId entry = {};  // and the answer's
  Duration age{0};           // of the answer
  Duration took{0};          // folding and looking up
};

struct AnswerLookup {
  std::optional<Answer> answer;
  std::vector<MatchStep> steps;                 // in order; an answer is that of the last
  Duration saved{0};                            // what the answer had taken
  std::optional<Duration> left = std::nullopt;  // until its time is over; absent: it never is

  /// The answer is there, and no model was asked for it.
  [[nodiscard]] bool avoided_work() const {
    return answer.has_value() && !steps.empty() &&
           (steps.back().verdict == Verdict::kServed || steps.back().verdict == Verdict::kJoined);
  }
};

}  // namespace afterimage
