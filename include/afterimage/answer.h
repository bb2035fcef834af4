// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/canonical_text.h"
#include "afterimage/digest.h"
#include "afterimage/ids.h"
#include "afterimage/question.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// What a model said to one question.
struct Answer {
  std::string text;
  std::string finish_reason;  // why it stopped, in the words of the OpenAI API: "stop", "length", …
  std::string model;          // as the engine names itself
  TokenCount prompt_tokens{};
  TokenCount output_tokens{};
  std::string record = {};  // the whole answer as whoever serves it keeps it; empty: text is all

  bool operator==(const Answer&) const = default;
};

/// Whether the answer may be given to another: it is whole. What was cut off, filtered, or calls a
/// tool may not.
[[nodiscard]] bool is_whole(const Answer& answer);

/// The one form in which an answer is kept: data only, nothing that anybody would execute.
///
/// Shape    The message of a FieldWriter, domain "afterimage/answer/2": text, finish_reason, model,
///          prompt_tokens, output_tokens, record.
/// Errors   kCorruption: not such a message, byte for byte.
/// Threads  Any.
[[nodiscard]] std::vector<std::byte> to_record(const Answer& answer);
[[nodiscard]] Result<Answer> from_record(std::span<const std::byte> record);

/// Names one kept answer: later ones have greater numbers, and none is given twice by one cache.
/// 0: none.
struct AnswerEntryId {
  std::uint64_t value = 0;
  auto operator<=>(const AnswerEntryId&) const = default;
};

/// A kept answer as people look at it. The answer itself is for those who ask its question.
struct AnswerEntry {
  AnswerEntryId id;
  std::string question;
  ScopeId scope;
  Duration age{0};
  std::optional<Duration> left = std::nullopt;  // 0: over, and not swept yet; absent: for ever
  Bytes bytes;                                  // as charged
  std::uint64_t uses = 0;                       // how often it was served
  Duration cost{0};                             // what each of them saved
  std::vector<std::string> tags;
  bool pinned = false;
  TenantId owner;
};

/// Which answers are meant: those to which all applies that is set. Nothing set: all.
struct AnswerFilter {
  std::optional<AnswerEntryId> entry = std::nullopt;
  std::optional<NamespaceId> space = std::nullopt;
  std::optional<ScopeKey> scope = std::nullopt;
  std::string tag = {};    // all of its bytes; empty: not set
  TenantId owner = {};     // empty: not set
  std::string words = {};  // stand so in the question, but for capitals of ASCII; empty: not set
  std::optional<Duration> older_than = std::nullopt;
};

struct AnswerCount {
  EntryCount entries;
  Bytes bytes;  // as charged

  AnswerCount& operator+=(const AnswerCount& other) {
    entries += other.entries;
    bytes += other.bytes;
    return *this;
  }
  AnswerCount& operator-=(const AnswerCount& other) {
    entries -= other.entries;
    bytes -= other.bytes;
    return *this;
  }
  friend AnswerCount operator+(AnswerCount a, const AnswerCount& b) { return a += b; }
  friend AnswerCount operator-(AnswerCount a, const AnswerCount& b) { return a -= b; }
  bool operator==(const AnswerCount&) const = default;
};

/// What is kept for one owner at most. Absent: as much as there is room.
struct AnswerQuota {
  std::optional<Bytes> bytes = std::nullopt;
  std::optional<EntryCount> entries = std::nullopt;

  [[nodiscard]] bool holds(const AnswerCount& count) const {
    return count.bytes <= bytes.value_or(Bytes::max()) &&
           count.entries <= entries.value_or(EntryCount::max());
  }
};

/// What is kept for one owner now.
struct AnswerUsage {
  TenantId owner;
  AnswerCount kept;
  AnswerCount pinned;  // of that
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
