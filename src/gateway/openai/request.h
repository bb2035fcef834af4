// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/media.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "caches/answers/sampling.h"
#include "caches/answers/scope.h"
#include "caches/identity/keys.h"

namespace afterimage {

/// What is asked of an OpenAI-compatible server, by its path.
enum class ApiOperation : unsigned char {
  kChat,        // POST /v1/chat/completions
  kCompletion,  // POST /v1/completions
  kEmbedding,   // POST /v1/embeddings
};
/// "chat", "completion", "embedding".
std::string_view to_string(ApiOperation operation);

/// One media part of a request, as it was sent.
struct ApiMedia {
  Modality modality = Modality::kImage;
  /// What a data URL or input_audio carries, decoded; nullptr: the part names an address.
  FileBytes bytes;
  /// Of these bytes, once whoever identifies the request has hashed them.
  std::optional<ContentDigest> digest = std::nullopt;
  std::string address;                         // as the request spells it; empty: it carries bytes
  std::string name;  // "messages[1].content[0].image_url": for messages to people
  std::map<std::string, std::string> options;  // what is asked of it: detail, format, mime type, …
  /// Where the JSON string with the URL stands in the body, quotes included: who fetches an address
  /// puts a data URL in its place.
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// What the `cache` object in a body says (LiteLLM's clients send it). Headers say it, too, and
/// win.
struct ApiCacheDirectives {
  std::optional<double> ttl_s = std::nullopt;      // "ttl"
  std::optional<double> max_age_s = std::nullopt;  // "s-maxage"
  bool no_cache = false;                           // "no-cache"
  bool no_store = false;                           // "no-store"
  std::string name_space;                          // "namespace"
};

/// One request as far as reuse has to understand it. What is not understood is part of its identity
/// and is passed on untouched: the body that was sent is what an upstream gets.
struct ApiRequest {
  ApiOperation operation = ApiOperation::kChat;
  std::string model;
  bool stream = false;
  bool include_usage = false;  // stream_options.include_usage
  std::optional<std::uint32_t> max_tokens = std::nullopt;
  /// Of embeddings: as with a seed, so that only the very same words get the vector of others.
  SamplingFacts sampling;
  std::vector<ApiMedia> media;  // in order of appearance
  std::optional<ApiCacheDirectives> cache;
  /// The first field that asks for what the built-in engine does not do, as an error for whoever
  /// asked. Other servers may do it.
  std::optional<Error> unsupported = std::nullopt;
  /// Of a completion whose prompt is a list of one text; the list as a whole is then the question.
  std::optional<std::string> single_prompt = std::nullopt;

  /// The user's words that are asked: the last text of the last message, the prompt of a
  /// completion, the input of an embedding. Empty: there are none to compare, and the request as a
  /// whole is the question (then only the very same request is the same question).
  std::string question;
  /// Everything but the question, with ScopeMedia whose content is still all zeros where media[i]
  /// stand (in order). `inputs` is not filled.
  Scope scope;
};

/// Errors   kInvalidArgument: not JSON, not UTF-8, deeper than 128 levels, the same key twice in
///          one object, fields that every server refuses (no model, messages that are no array, …),
///          base64 that is none: the message names the field. What cannot be identified is not
///          cached.
/// Cost     One pass over the body; data URLs are decoded once. Nothing reads the body again.
/// Threads  Any.
[[nodiscard]] Result<ApiRequest> read_api_request(ApiOperation operation, std::string_view body);

/// The scope with the contents of the media filled in. `contents` is one for each of
/// request.media; `inputs` is what happens to media before the model sees them.
[[nodiscard]] Scope scope_of(const ApiRequest& request, std::span<const ContentDigest> contents,
                             const NamespaceId& inputs);

/// The same request for an engine of this process: chat and completions. kInvalidArgument: a media
/// item without bytes. kUnsupported, by name: what such an engine does not do (several choices,
/// tools, a response format, log probabilities, a temperature other than 0, …), so that nothing is
/// silently ignored.
[[nodiscard]] Result<Request> engine_request(const ApiRequest& request);

/// The body with data URLs where media[i] named an address and now carries bytes. Everything else
/// is the same, byte for byte.
[[nodiscard]] std::string with_fetched_media(std::string_view body,
                                             std::span<const ApiMedia> media);

}  // namespace afterimage
