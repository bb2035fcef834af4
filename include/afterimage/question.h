// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "afterimage/canonical_text.h"
#include "afterimage/digest.h"
#include "afterimage/identity.h"
#include "afterimage/media.h"
#include "afterimage/request.h"
#include "afterimage/result.h"

namespace afterimage {

/// One image, audio clip or video, by its content: never by name, address or likeness.
struct ScopeMedia {
  Modality modality = Modality::kImage;
  ContentDigest content;
  std::map<std::string, std::string> options;  // what the request asks of it: detail, frame rate, …
};
/// Where the question's words stand.
struct QuestionSlot {};

struct ScopeMessage {
  Role role = Role::kUser;
  std::vector<std::variant<std::string, ScopeMedia, QuestionSlot>> parts;
};

/// What a question is asked in: two questions are compared only inside of one scope, and scopes are
/// the same or not, never similar.
struct Scope {
  NamespaceId inputs;  // Namespace::prefix_root: what happens to media before the model sees them
  std::vector<ScopeMessage> messages;  // all of them, from the system prompt to the question
  std::string tools;                   // as canonical JSON, with the choice among them; empty: none
  std::string response_format;         // likewise
  std::map<std::string, std::string> sampling;  // temperature, seed, limits, stops, … as text
  /// Every other field of the request, also those that nobody knows, but for those known to change
  /// nothing (ids, metadata, stream). A field that is absent is not a field that is empty.
  std::map<std::string, std::string> other;
};

/// A scope as the cache has it.
struct ScopeId {
  NamespaceId space;  // whose it is: model, weights, tenant
  ScopeKey key;
  /// Beyond this rung nothing is served. Canonical where there are media: what articles and plurals
  /// ask of a text in general, they may ask of one picture ("the dogs", "a dog").
  TextRung loosest = TextRung::kNear;
  bool operator==(const ScopeId&) const = default;
};

/// ScopeId::space of every scope in this namespace: for whoever asks often.
/// Threads  Any.
[[nodiscard]] NamespaceId answer_space(const Namespace& space);

/// HMAC-SHA-256 under the namespace's key over every field with its length; docs/formats/keys.md.
/// `answers` is answer_space(space).
/// Threads  Any.
[[nodiscard]] ScopeId identify(const Scope& scope, const Namespace& space,
                               const NamespaceId& answers);
[[nodiscard]] ScopeId identify(const Scope& scope, const Namespace& space);

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

/// The words that are asked, and the messages around them with the place where they were.
struct SplitRequest {
  std::string question;
  std::vector<ScopeMessage> messages;
};

/// Takes the question out of a request: the last text of the last message. `contents` are the
/// digests of the request's media in order.
///
/// Errors   kInvalidArgument: the last message is not the user's or has no text, or the number of
///          digests is not that of the media. What cannot be identified is not cached.
/// Threads  Any.
[[nodiscard]] Result<SplitRequest> split_request(const Request& request,
                                                 std::span<const ContentDigest> contents);

/// How far down the ladder a request may be served, whatever its rules allow besides.
enum class ReuseLimit : unsigned char {
  kNothing,     // the model is asked, and what it says is not kept
  kExact,       // an answer to the very same words
  kText,        // the rungs of text
  kSimilarity,  // neighbours, too
};
/// "nothing", "exact", "text", "likeness".
std::string_view to_string(ReuseLimit limit);

/// What a request says of how its answer is to be made.
struct SamplingFacts {
  std::optional<double> temperature = std::nullopt;  // absent: whatever the server takes
  bool seeded = false;
  std::uint32_t choices = 1;  // n, best_of
  bool log_probabilities = false;
  bool offers_tools = false;
  bool has_tool_results = false;  // or documents that were retrieved for it
};

struct Eligibility {
  ReuseLimit limit = ReuseLimit::kNothing;
  std::string_view why;  // a clause for a person: "no seed: another answer is expected each time"
  bool operator==(const Eligibility&) const = default;
};

/// Deterministic requests may be served what was said before, the likelier to be the same the
/// further: temperature 0, said explicitly, goes all the way; with a seed the same words get the
/// same answer; what is left to chance is asked each time. Choices, probabilities, tools and their
/// results: the very same words only. A question about the time at which it is asked is asked.
/// Threads  Any.
[[nodiscard]] Eligibility eligibility(const SamplingFacts& facts, std::string_view question);

/// "What is the weather today": a word by which the answer depends on when it is given. English.
[[nodiscard]] bool depends_on_time(std::string_view question);

}  // namespace afterimage
