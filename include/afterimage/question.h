// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/media.h"
#include "afterimage/request.h"
#include "afterimage/result.h"

namespace afterimage {

class Namespace;

/// How closely a cached question must match, strictest first. The numeric values are part of keys:
/// append, never renumber.
enum class MatchLevel : unsigned char {
  kExact = 0,      // the same bytes
  kCanonical = 1,  // the same words, typed differently
  kNear = 2,       // differs in articles, plurals and courtesy only; English only
};
inline constexpr std::array kMatchLevels{MatchLevel::kExact, MatchLevel::kCanonical,
                                         MatchLevel::kNear};
/// "text:exact", "text:canonical", "text:near".
std::string_view to_string(MatchLevel level);

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
  /// The loosest match level that may be served. Canonical if the scope has media: an article or a plural
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

/// A question to look up: its text and its scope. Forms are computed when a match level first needs them,
/// and stored. Copies share the text, which may be a megabyte.
///
/// Threads  Not thread-safe, form() included; a copy is another object.
class Question {
 public:
  Question(const ScopeId& scope, std::string text)
      : scope_(scope), text_(std::make_shared<const std::string>(std::move(text))) {}

  [[nodiscard]] const ScopeId& scope() const { return scope_; }
  [[nodiscard]] const std::string& text() const { return *text_; }
  /// The loosest match level that may be served: the stricter of the rules' and the scope's limit.
  [[nodiscard]] MatchLevel ceiling(MatchLevel serve) const {
    return std::min(serve, scope_.loosest);
  }
  /// nullopt: the match level does not apply. Valid until the question is moved or destroyed.
  [[nodiscard]] std::optional<std::string_view> form(MatchLevel level);

 private:
  void make_form(MatchLevel level);

  enum class FormState : unsigned char { kNotMade, kNone, kSame, kOwn };
  struct Form {
    FormState state = FormState::kNotMade;
    std::string text;  // of kOwn
  };
  ScopeId scope_;
  std::shared_ptr<const std::string> text_;
  std::array<Form, kMatchLevels.size()> forms_;  // kExact is unused: that form is text_
};

}  // namespace afterimage
