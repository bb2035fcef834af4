// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/ids.h"
#include "afterimage/question.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// A model's answer to one question.
struct Answer {
  std::string text;
  std::string finish_reason;  // as in the OpenAI API: "stop", "length", …
  std::string model;          // the engine's own name
  TokenCount prompt_tokens{};
  TokenCount output_tokens{};
  std::string record = {};  // the whole response in the server's format; empty: only text

  bool operator==(const Answer&) const = default;
};

/// Whether the model ended the answer by itself: not truncated, not filtered, no tool call. Only
/// complete answers are served to other wordings of the question (AnswerFacts::keep_partial).
[[nodiscard]] bool is_whole(const Answer& answer);

/// The serialized form of an answer: data only, nothing executable.
///
/// Shape    The message of a FieldWriter, domain "afterimage/answer/2": text, finish_reason, model,
///          prompt_tokens, output_tokens, record.
/// Errors   kCorruption: not such a message, byte for byte.
/// Threads  Any.
[[nodiscard]] std::vector<std::byte> to_record(const Answer& answer);
[[nodiscard]] Result<Answer> from_record(std::span<const std::byte> record);

/// Identifies a cached answer. Increases with every insertion and is never reused by one cache.
/// 0: none.
struct AnswerEntryId {
  std::uint64_t value = 0;
  auto operator<=>(const AnswerEntryId&) const = default;
};

/// The metadata of a cached answer, for listings. The answer itself is not included.
struct AnswerEntry {
  AnswerEntryId id;
  std::string question;
  ScopeId scope;
  Duration age{0};
  /// Until expiry. 0: expired, not removed yet; absent: no expiry.
  std::optional<Duration> left = std::nullopt;
  Bytes bytes;             // as charged
  std::uint64_t uses = 0;  // times served
  Duration cost{0};        // saved by each use
  std::vector<std::string> tags;
  bool pinned = false;
  TenantId owner;
};

/// Selects answers that match every field that is set. Nothing set: all answers.
struct AnswerFilter {
  std::optional<AnswerEntryId> entry = std::nullopt;
  std::optional<NamespaceId> space = std::nullopt;
  std::optional<ScopeKey> scope = std::nullopt;
  std::string tag = {};    // compared in full; empty: not set
  TenantId owner = {};     // empty: not set
  std::string words = {};  // substring of the question, ASCII case-insensitive; empty: not set
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

/// Limits on one owner's cached answers. Absent: no limit of its own.
struct AnswerQuota {
  std::optional<Bytes> bytes = std::nullopt;
  std::optional<EntryCount> entries = std::nullopt;

  [[nodiscard]] bool holds(const AnswerCount& count) const {
    return count.bytes <= bytes.value_or(Bytes::max()) &&
           count.entries <= entries.value_or(EntryCount::max());
  }
};

/// One owner's cached answers.
struct AnswerUsage {
  TenantId owner;
  AnswerCount kept;
  AnswerCount pinned;  // part of kept
};

/// Which matches a request accepts.
struct LookupRules {
  /// The loosest match level that may be served; match levels that the scope forbids are only watched.
  MatchLevel serve = MatchLevel::kNear;
  /// Levels beyond `serve`, up to this one, are looked up and counted but never served.
  MatchLevel watch = MatchLevel::kExact;
  /// Older answers are not served.
  std::optional<Duration> max_age = std::nullopt;
  /// Answers that expire sooner are not served. Answers without expiry always qualify.
  std::optional<Duration> min_fresh = std::nullopt;
  /// Whether a large record is AnswerLookup::shared.
  bool share = false;
};

/// The result of a look-up at one match level.
enum class Verdict : unsigned char {
  kServed,
  kJoined,                // waited for another request's answer: see AnswerOnce
  kMissed,                // no entry
  kNotAllowed,            // matched; the match level is beyond LookupRules::serve
  kTooOld,                // matched; violates LookupRules::max_age or min_fresh
  kExpired,               // matched; expired and removed
  kDamaged,               // matched; failed its checksum and removed
  kInsufficientEvidence,  // similar; not enough evidence that such matches are right: see SimilarityLevel
  kExplored,              // similar and acceptable; the model was asked anyway, to gather evidence
};
/// "served", "missed", "not_allowed", …
std::string_view to_string(Verdict verdict);

/// One match level of a look-up: the candidate, and why it was used or not.
struct MatchStep {
  MatchLevel level = MatchLevel::kExact;
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
  bool by_similarity = false;                   // to a similar question, which the last step names
  /// With LookupRules::share, an answer whose record has AnswerCache::kLeastShared bytes; `answer` is
  /// then without its record. All hits have the same one while one of them holds it.
  std::shared_ptr<const Answer> shared = nullptr;

  /// There is an answer, and no model was asked for it.
  [[nodiscard]] bool avoided_work() const {
    return answer.has_value() && !steps.empty() &&
           (steps.back().verdict == Verdict::kServed || steps.back().verdict == Verdict::kJoined);
  }
};

}  // namespace afterimage
