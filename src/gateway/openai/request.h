// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/engine.h"
#include "afterimage/identity.h"
#include "afterimage/media.h"
#include "afterimage/question.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "caches/answers/eligibility.h"

namespace afterimage {

/// An operation of an OpenAI-compatible server, by path.
enum class ApiOperation : unsigned char {
  kChat,        // POST /v1/chat/completions
  kCompletion,  // POST /v1/completions
  kEmbedding,   // POST /v1/embeddings
  // Read by gateway/endpoints; their answers are kept as they came. The numeric values are written into
  // records: append, never renumber.
  kTranscription,  // POST /v1/audio/transcriptions
  kTranslation,    // POST /v1/audio/translations
  kRerank,         // POST /v1/rerank
  kScore,          // POST /v1/score
  kImage,          // POST /v1/images/generations
  kImageEdit,      // POST /v1/images/edits
  kSpeech,         // POST /v1/audio/speech
};
inline constexpr auto kApiOperations = static_cast<std::size_t>(ApiOperation::kSpeech) + 1;
/// "chat", "completion", "embedding", "transcription", "translation", "rerank", "score", "image",
/// "image-edit", "speech".
std::string_view to_string(ApiOperation operation);
/// Whether a model writes a text, which ends with a finish reason.
constexpr bool generates_text(ApiOperation operation) {
  return operation <= ApiOperation::kCompletion;
}
/// Whether its answers are kept as they came: bytes and content type.
constexpr bool is_verbatim(ApiOperation operation) { return operation > ApiOperation::kEmbedding; }
/// Whether it computes a function of its input: nothing is sampled.
constexpr bool is_function(ApiOperation operation) {
  return operation == ApiOperation::kEmbedding || operation == ApiOperation::kRerank ||
         operation == ApiOperation::kScore;
}

/// One media part of a request, as sent.
struct ApiMedia {
  Modality modality = Modality::kImage;
  /// The decoded bytes of a data URL or of input_audio; nullptr: the part names an address.
  FileBytes bytes;
  std::optional<ContentDigest> digest = std::nullopt;  // of the bytes, once they were hashed
  std::string address;                                 // as in the request; empty: it carries bytes
  std::string name;                            // "messages[1].content[0].image_url": for messages
  std::map<std::string, std::string> options;  // detail, format, mime type, …
  /// The position of the URL's JSON string in the body, quotes included, where
  /// with_fetched_media() puts a data URL. 0 and 0: a file, which is never named by address.
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The `cache` object of a body, as LiteLLM's clients send it. Headers take precedence: see
/// CacheDirectives in gateway/access/cache_control.h.
struct ApiCacheDirectives {
  std::optional<double> ttl_s = std::nullopt;      // "ttl"
  std::optional<double> max_age_s = std::nullopt;  // "s-maxage"
  bool no_cache = false;                           // "no-cache"
  bool no_store = false;                           // "no-store"
  std::string name_space;                          // "namespace"
};

/// How a built-in engine is to generate an answer. Absent fields take the engine's defaults.
struct ApiGeneration {
  std::map<std::string_view, double> sampling;  // by SamplingNumber::name
  std::optional<std::uint64_t> seed;
  bool any_seed = false;  // the request wants another answer each time
  std::map<TokenId, float> logit_bias;
  std::vector<std::string> stop;
  std::optional<std::uint32_t> top_logprobs;
  std::uint32_t choices = 1;
  AnswerRules rules;
  bool ignores_end = false;  // "ignore_eos": the answer goes on until another limit
};

/// A text, or tokens as the client made them; embeddings and /completion take both in one prompt, in order.
using ApiPrompt = std::vector<std::variant<std::string, std::vector<TokenId>>>;

/// What a client wants to know of how its answer is computed, with llama-server's names. Such an
/// answer is computed each time.
struct ApiDetails {
  bool prompt = false;   // "verbose"
  bool timings = false;  // "timings_per_token"
  [[nodiscard]] bool any() const { return prompt || timings; }
};

/// What a built-in engine needs besides the content.
struct ApiEngineFields {
  ApiDetails details;
  ApiGeneration generation;
  std::vector<Message> messages;  // one for each of the scope, which has its role and parts
  /// Of a completion or an embedding with a list of prompts, or with a prompt of tokens: each has
  /// choices, or a vector, of its own. Empty: the prompt is the question.
  std::vector<ApiPrompt> prompts;
  bool base64_vectors = false;  // of an embedding: "encoding_format": "base64"
  /// What has no influence on an answer of this engine: "service_tier", "messages[0].name".
  std::vector<std::string> ignored;
  /// The first field that the built-in engine does not support, as an error for the client. Other
  /// servers may support it.
  std::optional<Error> unsupported = std::nullopt;
  void note(Result<void> taken) {
    if (!taken.has_value() && !unsupported.has_value()) unsupported = std::move(taken).error();
  }
};

/// One input of a batch of embeddings: a text, or tokens as canonical JSON.
struct ApiInput {
  std::string text;       // empty: tokens
  std::string tokens;     // empty: a text
  std::size_t begin = 0;  // its position in the body
  std::size_t end = 0;
};
/// A batch of embeddings whose inputs say nothing of each other.
struct ApiBatch {
  std::vector<ApiInput> inputs;  // two or more; else empty
  std::size_t begin = 0;         // the position of their list in the body
  std::size_t end = 0;
};

/// A request, parsed as far as caching needs. Unknown fields become part of its identity; the
/// upstream receives the body unchanged.
struct ApiRequest {
  ApiOperation operation = ApiOperation::kChat;
  std::string model;
  bool stream = false;
  bool include_usage = false;  // stream_options.include_usage
  std::optional<std::uint32_t> max_tokens = std::nullopt;
  /// Embeddings are marked as seeded, so that only an exact match is served.
  SamplingFacts sampling;
  std::vector<ApiMedia> media;  // in order of appearance
  /// Of bytes that the body holds elsewhere: in parts of other types, in fields that nothing here knows,
  /// within texts. The answer depends on them, too, and is erased with them.
  std::vector<ContentDigest> attached;
  /// Of tool calls, as somebody made them at random: requests that differ in them alone have the same
  /// identity. See CallIds.
  std::vector<std::string> call_ids;
  std::optional<ApiCacheDirectives> cache;
  ApiBatch batch;
  /// Of a request that may be sampled: who asks, as "user:…" from `user`, `safety_identifier` or
  /// `metadata.user_id`, and the conversation from `prompt_cache_key`. Empty: it does not say.
  std::string user;
  std::string conversation;
  std::shared_ptr<const ApiEngineFields> engine;  // nullptr: read for another server

  /// The question: the last text of the last message if that is the user's, the prompt of a
  /// completion, or the input of an embedding. Empty: the request has no such text, and only an
  /// identical request matches it.
  std::string question;
  /// Everything except the question. The ScopeMedia of media[i] (in order) still have zeros as
  /// content, and `inputs` is empty: scope_of() fills both.
  Scope scope;
};

/// Who computes the answer.
enum class ApiReader : std::uint8_t {
  kEngine,       // of this process; a request need not name its only model
  kOtherServer,  // gets the body as it is
};

/// Parses the body of a request.
///
/// Errors   kInvalidArgument: not JSON, not UTF-8, deeper than 128 levels, a key twice in one
///          object, invalid base64, or a field that every server refuses (no model, messages that
///          are not an array, …); the message names the field. Such a request cannot be
///          identified, so it is not cached. kUnsupported: an input of an embedding is named by an address,
///          and another server will fetch it.
/// Cost     One pass over the body; data URLs are decoded once. Nothing parses the body again.
/// Threads  Any.
[[nodiscard]] Result<ApiRequest> read_api_request(ApiOperation operation, std::string_view body,
                                                  ApiReader reader = ApiReader::kEngine);

/// The scope of `request` with the digests of its media. `contents` has one digest per element of
/// request.media; `inputs` identifies the preprocessing of media.
[[nodiscard]] Scope scope_of(const ApiRequest& request, std::span<const ContentDigest> contents,
                             const NamespaceId& inputs);

/// Converts a chat or completion request for the built-in engine, with prompts[prompt] if the prompt
/// is a list. The request was read for an engine.
///
/// Errors   kInvalidArgument: a media item without bytes, or a field out of range. kUnsupported,
///          naming the field: embeddings, and options that no built-in engine implements, so
///          nothing is silently ignored. What one engine lacks, that engine refuses.
[[nodiscard]] Result<Request> engine_request(const ApiRequest& request, std::size_t prompt = 0);

/// How an engine with these defaults and this tokenizer, or none, generates the answers to `request`, which was
/// read for it.
///
/// Errors   kUnsupported: "ignore_eos", without a tokenizer.
[[nodiscard]] Result<GenerateOptions> generate_options(const ApiRequest& request,
                                                       const GenerateOptions& defaults,
                                                       const Tokenizer* tokenizer);

/// The body of a batch with these of its inputs only, in this order.
[[nodiscard]] std::string with_inputs(std::string_view body, const ApiBatch& batch,
                                      std::span<const std::size_t> inputs);

/// The body with a data URL in place of every address whose media[i] now has bytes. Everything else
/// stays the same, byte for byte.
[[nodiscard]] std::string with_fetched_media(std::string_view body,
                                             std::span<const ApiMedia> media);

}  // namespace afterimage
