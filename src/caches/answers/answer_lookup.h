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

/// A question to look up: its text and its scope. Forms are computed when a rung first needs them,
/// and stored.
///
/// Threads  Not thread-safe, form() included.
class Question {
 public:
  Question(const ScopeId& scope, std::string text) : scope_(scope), text_(std::move(text)) {}

  [[nodiscard]] const ScopeId& scope() const { return scope_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  /// The loosest rung that may be served: the stricter of the rules' and the scope's limit.
  [[nodiscard]] TextRung ceiling(TextRung serve) const { return std::min(serve, scope_.loosest); }
  /// nullopt: the rung does not apply. Valid until the question is moved or destroyed.
  [[nodiscard]] std::optional<std::string_view> form(TextRung rung);

 private:
  struct Form {
    bool made = false;
    std::optional<std::string> text;
  };
  ScopeId scope_;
  std::string text_;
  std::array<Form, kTextRungs.size()> forms_;  // kExact is unused: that form is text_
};

/// Which matches a request accepts.
struct LookupRules {
  /// The loosest rung that may be served; rungs that the scope forbids are only watched.
  TextRung serve = TextRung::kNear;
  /// Rungs beyond `serve`, up to this one, are looked up and counted but never served.
  TextRung watch = TextRung::kExact;
  /// Older answers are not served.
  std::optional<Duration> max_age = std::nullopt;
  /// Answers that expire sooner are not served. Answers without expiry always qualify.
  std::optional<Duration> min_fresh = std::nullopt;
};

/// The result of a look-up at one rung.
enum class Verdict : unsigned char {
  kServed,
  kJoined,      // waited for another request's answer: see AnswerOnce
  kMissed,      // no entry
  kNotAllowed,  // matched; the rung is beyond LookupRules::serve
  kTooOld,      // matched; violates LookupRules::max_age or min_fresh
  kExpired,     // matched; expired and removed
  kDamaged,     // matched; failed its checksum and removed
  kUnsure,      // similar; not enough evidence that such matches are right: see SimilarityRung
  kExplored,    // similar and acceptable; the model was asked anyway, to gather evidence
};
/// "served", "missed", "not_allowed", …
std::string_view to_string(Verdict verdict);

/// One rung of a look-up: the candidate, and why it was used or not.
struct MatchStep {
  TextRung rung = TextRung::kExact;
  Verdict verdict = Verdict::kMissed;
  std::string candidate;     // the exact question that the entry answers
  AnswerEntryId entry = {};  // the entry
  Duration age{0};           // of the answer
  Duration took{0};          // computing the form and looking it up
};

struct AnswerLookup {
  std::optional<Answer> answer;
  std::vector<MatchStep> steps;                 // in order; the answer is the last step's
  Duration saved{0};                            // the answer's cost
  std::optional<Duration> left = std::nullopt;  // until expiry; absent: none

  /// There is an answer, and no model was asked for it.
  [[nodiscard]] bool avoided_work() const {
    return answer.has_value() && !steps.empty() &&
           (steps.back().verdict == Verdict::kServed || steps.back().verdict == Verdict::kJoined);
  }
};

}  // namespace afterimage
