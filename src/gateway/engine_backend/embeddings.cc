// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/engine_backend/embeddings.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "foundation/json/json_text.h"
#include "foundation/text/data_url.h"

namespace afterimage {
namespace {

/// As little-endian floats.
std::string base64_of(const std::vector<float>& vector) {
  static_assert(std::endian::native == std::endian::little);
  return '"' + encode_base64(std::as_bytes(std::span(vector))) + '"';
}

std::string json_of(const std::vector<float>& vector) {
  std::string json;
  for (const float x : vector) {
    json += json.empty() ? '[' : ',';
    fmt::format_to(std::back_inserter(json), "{}", x);
  }
  return json + "]";
}

/// A text is embedded with the tokens that the model puts around it, if it comes first.
Result<std::vector<TokenId>> tokens_of(const Engine& engine, const ApiPrompt& input) {
  const Tokenizer* const tokenizer = engine.tokenizer();
  std::vector<TokenId> all;
  for (const auto& part : input) {
    if (const auto* const tokens = std::get_if<std::vector<TokenId>>(&part)) {
      all.insert(all.end(), tokens->begin(), tokens->end());
      continue;
    }
    if (tokenizer == nullptr)
      return fail(ErrorCode::kUnsupported, "this engine makes no embeddings");
    AFI_TRY(const auto tokens,
            tokenizer->tokenize(std::get<std::string>(part), {.add_special = all.empty()}));
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

}  // namespace

Result<EmbeddingInputs> embedding_inputs(const ApiRequest& request, const Engine& engine) {
  const ApiEngineFields& fields = *request.engine;
  if (fields.unsupported.has_value()) return std::unexpected(*fields.unsupported);
  EmbeddingInputs inputs;
  for (const ApiPrompt& input : fields.prompts) {
    AFI_TRY(inputs.emplace_back(), tokens_of(engine, input));
  }
  if (!inputs.empty()) return inputs;
  AFI_TRY(inputs.emplace_back(), tokens_of(engine, {request.question}));
  return inputs;
}

Result<std::string> answer_embeddings(const ApiRequest& request, const EmbeddingInputs& inputs,
                                      const Engine& engine) {
  const ApiEngineFields& fields = *request.engine;
  std::string data;
  std::size_t count = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    AFI_TRY(const auto vector, engine.embed(inputs[i]));
    count += inputs[i].size();
    if (i > 0) data += ',';
    data += R"({"object":"embedding","index":)" + std::to_string(i) + R"(,"embedding":)" +
            (fields.base64_vectors ? base64_of(vector) : json_of(vector)) + '}';
  }
  std::string model;
  append_json_string(model, request.model);
  return fmt::format(
      R"({{"object":"list","data":[{0}],"model":{1},"usage":{{"prompt_tokens":{2},"total_tokens":{2}}}}})",
      data, model, count);
}

}  // namespace afterimage
