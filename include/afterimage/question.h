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

/// One image, audio clip or video, identified by content digest: never by name, URL or similarity.
struct ScopeMedia {
  Modality modality = Modality::kImage;
  ContentDigest content;
  std::map<std::string, std::string> options;  // request options: detail, frame rate, …
};
/// The position of the question's text.
struct QuestionSlot {};

struct ScopeMessage {
  Role role = Role::kUser;
  std::vector<std::variant<std::string, ScopeMedia, QuestionSlot>> parts;
};

/// The context of a question. Questions are compared only within one scope; scopes are equal or
/// not, never similar.
struct Scope {
  NamespaceId inputs;                  // Namespace::prefix_root: how media are preprocessed
  std::vector<ScopeMessage> messages;  // all, from the system prompt to the question
  std::string tools;                   // canonical JSON, with tool_choice; empty: none
  std::string response_format;         // canonical JSON; empty: none
  std::map<std::string, std::string> sampling;  // temperature, seed, limits, stops, … as text
  /// Every other field of the request, unknown ones included, except those known to have no effect
  /// (ids, metadata, stream). An absent field differs from an empty one.
  std::map<std::string, std::string> other;
};

/// The key of a scope.
struct ScopeId {
  NamespaceId space;  // model, weights, tenant
  ScopeKey key;
  /// The loosest rung that may be served. Canonical if the scope has media: an article or a plural
  /// can be what is asked about an image ("the dogs", "a dog").
  MatchLevel loosest = MatchLevel::kNear;
  bool operator==(const ScopeId&) const = default;
};

/// ScopeId::space of every scope in this namespace; compute it once and pass it to identify().
/// Threads  Any.
[[nodiscard]] NamespaceId answer_space(const Namespace& space);

/// HMAC-SHA-256 under the namespace's key over every field with its length; docs/formats/keys.md.
/// `answers` is answer_space(space).
/// Threads  Any.
[[nodiscard]] ScopeId identify(const Scope& scope, const Namespace& space,
                               const NamespaceId& answers);
[[nodiscard]] ScopeId identify(const Scope& scope, const Namespace& space);

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
  [[nodiscard]] MatchLevel ceiling(MatchLevel serve) const {
    return std::min(serve, scope_.loosest);
  }
  /// nullopt: the rung does not apply. Valid until the question is moved or destroyed.
  [[nodiscard]] std::optional<std::string_view> form(MatchLevel rung);

 private:
  struct Form {
    bool made = false;
    std::optional<std::string> text;
  };
  ScopeId scope_;
  std::string text_;
  std::array<Form, kMatchLevels.size()> forms_;  // kExact is unused: that form is text_
};

/// The question's text, and the messages with a QuestionSlot in its place.
struct SplitRequest {
  std::string question;
  std::vector<ScopeMessage> messages;
};

/// Splits a request into question (the last text of the last message) and the rest. `contents` are
/// the digests of the request's media in order.
///
/// Errors   kInvalidArgument: the last message is not the user's or has no text, or the number of
///          digests and media differ. Such a request is not cached.
/// Threads  Any.
[[nodiscard]] Result<SplitRequest> split_request(const Request& request,
                                                 std::span<const ContentDigest> contents);

/// The loosest match that a request's sampling parameters allow.
enum class ReuseLimit : unsigned char {
  kNothing,     // bypass the cache: no look-up, and the answer is not stored
  kExact,       // the same text only
  kText,        // all text rungs
  kSimilarity,  // similar questions, too
};
/// "nothing", "exact", "text", "similarity".
std::string_view to_string(ReuseLimit limit);

/// The parameters of a request that decide whether its answer can be reused.
struct SamplingFacts {
  std::optional<double> temperature = std::nullopt;  // absent: the server's default
  bool seeded = false;
  std::uint32_t choices = 1;  // n, best_of
  bool log_probabilities = false;
  bool offers_tools = false;
  bool has_tool_results = false;  // or documents retrieved for it
};

struct Eligibility {
  ReuseLimit limit = ReuseLimit::kNothing;
  std::string_view why;  // for people: "tools are offered"
  bool operator==(const Eligibility&) const = default;
};

/// Which matches may be served, by how deterministic the request is.
///
/// Rules    Explicit temperature 0: all, similarity included. A seed: the same text only. Neither:
///          nothing. Several choices, log probabilities, tools and their results: the same text
///          only. A question that speaks of time: the same text only.
/// Threads  Any.
[[nodiscard]] Eligibility eligibility(const SamplingFacts& facts, std::string_view question);

/// Whether the question contains words of time ("What is the weather today"), in English, German, French,
/// Spanish, Italian, Chinese or Japanese: similar questions may be about another time.
[[nodiscard]] bool depends_on_time(std::string_view question);

}  // namespace afterimage
