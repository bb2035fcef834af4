// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "afterimage/media.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "caches/identity/keys.h"
#include "caches/identity/scope_key.h"
#include "caches/language/canonical_text.h"

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
  TextRung loosest = TextRung::kNear;
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

}  // namespace afterimage
