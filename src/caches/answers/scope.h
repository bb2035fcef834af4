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

}  // namespace afterimage
