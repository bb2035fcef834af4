// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/engine_backend/engine_helpers.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "foundation/json/json_text.h"
#include "gateway/engine_backend/generation_settings.h"
#include "gateway/openai/request.h"

namespace afterimage {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kCount = "/chat/completions/input_tokens";
constexpr std::string_view kCountV1 = "/v1/chat/completions/input_tokens";
constexpr auto kHelpers = std::to_array<std::string_view>(
    {"/tokenize", "/detokenize", "/apply-template", "/props", "/slots", kCount, kCountV1});

/// Bytes that are no character become U+FFFD.
std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_utf8(const std::string& bytes) {
  try {
    return !Json(bytes).dump().empty();
  } catch (const Json::exception&) {
    return false;
  }
}

Result<bool> read_flag(const JsonValue& root, std::string_view name, bool otherwise) {
  const JsonValue value = root[name];
  if (value.is_none()) return otherwise;
  if (value.is(JsonKind::kTrue) || value.is(JsonKind::kFalse)) return value.is(JsonKind::kTrue);
  return fail(ErrorCode::kInvalidArgument, std::string(name) + " must be true or false");
}

/// A part of a character is given as its bytes.
Json piece_of(TokenId token, const std::string& bytes) {
  Json piece{{"id", static_cast<std::int32_t>(token)}};
  if (is_utf8(bytes)) {
    piece["piece"] = bytes;
  } else {
    piece["piece"] = std::vector<std::uint8_t>(bytes.begin(), bytes.end());
  }
  return piece;
}

Result<Json> tokenize(const Tokenizer& tokenizer, const JsonValue& root) {
  const JsonValue content = root["content"];
  if (!content.is_none() && !content.is(JsonKind::kString)) {
    return fail(ErrorCode::kInvalidArgument, "content must be a string");
  }
  Tokenizer::Options options;
  AFI_TRY(options.add_special, read_flag(root, "add_special", options.add_special));
  AFI_TRY(options.parse_special, read_flag(root, "parse_special", options.parse_special));
  AFI_TRY(const bool with_pieces, read_flag(root, "with_pieces", false));
  AFI_TRY(const auto tokens, tokenizer.tokenize(content.text(), options));
  Json said = Json::array();
  for (const TokenId token : tokens) {
    if (!with_pieces) {
      said.push_back(static_cast<std::int32_t>(token));
      continue;
    }
    AFI_TRY(const std::string bytes, tokenizer.bytes_of(token));
    said.push_back(piece_of(token, bytes));
  }
  return Json{{"tokens", std::move(said)}};
}

Result<Json> detokenize(const Tokenizer& tokenizer, const JsonValue& root) {
  const JsonValue tokens = root["tokens"];
  if (!tokens.is_none() && !tokens.is(JsonKind::kArray)) {
    return fail(ErrorCode::kInvalidArgument, "tokens must be a list of token ids");
  }
  std::string text;
  for (const JsonValue token : tokens) {
    const auto id = token.count();
    if (!id.has_value() || *id > std::numeric_limits<std::int32_t>::max()) {
      return fail(ErrorCode::kInvalidArgument, "tokens must be a list of token ids");
    }
    AFI_TRY(const std::string bytes, tokenizer.bytes_of(static_cast<TokenId>(*id)));
    text += bytes;
  }
  return Json{{"content", text}};
}

Result<Json> apply_template(const Tokenizer& tokenizer, const std::string& body) {
  AFI_TRY(const ApiRequest chat, read_api_request(ApiOperation::kChat, body, ApiReader::kEngine));
  AFI_TRY(const Request request, engine_request(chat));
  AFI_TRY(const std::string prompt, tokenizer.prompt_of(request));
  return Json{{"prompt", prompt}};
}

/// Of the whole prompt, media included.
Result<Json> count_tokens(const Engine& engine, const std::string& body) {
  AFI_TRY(const ApiRequest chat, read_api_request(ApiOperation::kChat, body, ApiReader::kEngine));
  AFI_TRY(const Request request, engine_request(chat));
  const std::vector<ContentDigest> contents(media_of(request).size());
  AFI_TRY(const Sequence prompt, engine.prepare(request, contents));
  return Json{{"input_tokens", prompt.tokens.size()}};
}

Json properties(const ServedEngine& served, const Tokenizer& tokenizer) {
  return Json{
      {"default_generation_settings",
       {{"n_ctx", tokenizer.context().value()}, {"params", generation_settings(served.defaults)}}},
      {"total_slots", served.engine.load().lanes},
      {"model_alias", served.settings.model},
      {"model_path", served.settings.file},
      {"chat_template", tokenizer.chat_template()}};
}

/// The lanes; which of them a request has, nobody needs to know.
Json slots(const EngineLoad& load, TokenCount context) {
  Json list = Json::array();
  for (std::uint32_t i = 0; i < load.lanes; ++i) {
    list.push_back({{"id", i}, {"n_ctx", context.value()}, {"is_processing", i < load.busy}});
  }
  return list;
}

Result<Json> helped(const Tokenizer& tokenizer, std::string_view path, const std::string& body) {
  if (path == "/apply-template") return apply_template(tokenizer, body);
  JsonReader reader;
  AFI_TRY(const JsonValue root, reader.read(body));
  if (!root.is(JsonKind::kObject)) {
    return fail(ErrorCode::kInvalidArgument, "the body must be a JSON object");
  }
  return path == "/tokenize" ? tokenize(tokenizer, root) : detokenize(tokenizer, root);
}

}  // namespace

bool is_engine_helper(std::string_view path) {
  return std::ranges::find(kHelpers, path) != kHelpers.end();
}

Result<std::string> engine_helper(const ServedEngine& served, std::string_view method,
                                  std::string_view path, const std::string& body) {
  const Engine& engine = served.engine;
  const bool reads = path == "/props" || path == "/slots";
  if (!is_engine_helper(path) || method != (reads ? "GET" : "POST")) {
    return fail(ErrorCode::kNotFound, "the engine of this process does not offer " +
                                          std::string(method) + " " + std::string(path));
  }
  if (path == kCount || path == kCountV1) {
    AFI_TRY(const Json said, count_tokens(engine, body));
    return to_text(said);
  }
  const Tokenizer* const tokenizer = engine.tokenizer();
  if (tokenizer == nullptr) {
    return fail(ErrorCode::kUnsupported,
                "this engine has no tokenizer for clients; --engine llama has one");
  }
  if (path == "/slots") return to_text(slots(engine.load(), tokenizer->context()));
  if (reads) return to_text(properties(served, *tokenizer));
  AFI_TRY(const Json said, helped(*tokenizer, path, body));
  return to_text(said);
}

}  // namespace afterimage
