// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <vector>

#include "afterimage/request.h"
#include "afterimage/result.h"
#include "caches/answers/answer_lookup.h"
#include "caches/identity/fingerprint.h"
#include "caches/identity/keys.h"
#include "policy/eviction/request_facts.h"
#include "runtime/engine_api/engine.h"

namespace afterimage {

/// Everything that identifies one request, derived once. Refers to the request, which outlives it.
struct RequestIdentity {
  const Request* request;
  std::vector<const MediaItem*> media;  // in order of appearance
  Fingerprint prints;
  Namespace space;
  NamespaceId root;                  // of its KV prefixes
  std::optional<Question> question;  // nullopt: the request asks nothing that could be looked up
};

/// Hashes every media item whose digest the request does not already carry.
///
/// Errors   kInvalidArgument: the engine does not name its model.
/// Threads  Any.
Result<RequestIdentity> identify(const Request& request, const Engine& engine, const Secret& root,
                                 const GenerateOptions& options);

/// Who wrote the last message.
TurnKind turn_kind(const Request& request);

/// How the engine preprocesses each modality before encoding.
Recipes recipes_of(const Engine& engine);

}  // namespace afterimage
