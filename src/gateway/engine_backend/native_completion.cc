// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/engine_backend/native_completion.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/serve.h"
#include "foundation/json/json_text.h"
#include "gateway/engine_backend/answer_details.h"
#include "gateway/engine_backend/generation_settings.h"

namespace afterimage {
namespace {

using Json = nlohmann::ordered_json;

/// They have no equal in OpenAI's API and change no answer.
constexpr auto kChangeNothing =
    std::to_array<std::string_view>({"cache_prompt", "id_slot", "return_tokens", "response_fields",
                                     "n_probs", "post_sampling_probs", "prompt"});
/// Where -1 means no value.
constexpr auto kMayBeNegative = std::to_array<std::string_view>({"n_predict", "max_tokens"});

bool is_one_of(const std::string& name, const auto& names) {
  return std::ranges::find(names, name) != names.end();
}

std::unexpected<Error> wrong(const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, what);
}

/// Bytes that are no character become U+FFFD.
std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

using Prompt = NativeRequest::Prompt;

class Reading {
 public:
  Reading(const Tokenizer& tokenizer, const GenerateOptions& defaults, const Json& root)
      : tokenizer_(tokenizer), defaults_(defaults), root_(root) {}

  Result<NativeRequest> run() && {
    AFI_TRY_VOID(read_prompts());
    AFI_TRY_VOID(read_fields());
    for (const Json& field : root_.value("response_fields", Json::array())) {
      if (!field.is_string()) return wrong("response_fields must be a list of names");
      asked_.response_fields.push_back(field.get<std::string>());
    }
    return std::move(asked_);
  }

 private:
  [[nodiscard]] Result<bool> flag(const char* name) const {
    const Json value = root_.value(name, Json(false));
    if (value.is_boolean()) return value.get<bool>();
    return wrong(std::string(name) + " must be true or false");
  }

  /// A text, a token, a list of both, or {"prompt_string"}. Only what comes first gets the tokens
  /// that the model puts before a text.
  Result<void> append(const Json& part, Prompt& prompt) const {
    if (part.is_array()) {
      for (const Json& one : part) {
        if (one.is_array()) return wrong("a prompt is a list of texts and tokens");
        AFI_TRY_VOID(append(one, prompt));
      }
      return {};
    }
    if (part.is_number_unsigned() &&
        part.get<std::uint64_t>() <= std::numeric_limits<std::int32_t>::max()) {
      const auto token = static_cast<TokenId>(part.get<std::int32_t>());
      AFI_TRY(const std::string text, tokenizer_.bytes_of(token));
      prompt.tokens.push_back(token);
      prompt.text += text;
      return {};
    }
    const bool is_object = part.is_object() && part.contains("prompt_string");
    if (is_object && part.contains("multimodal_data") && !part["multimodal_data"].empty()) {
      return fail(ErrorCode::kUnsupported,
                  "multimodal_data is not supported: send media to /v1/chat/completions");
    }
    const Json text = is_object ? part["prompt_string"] : part;
    if (!text.is_string()) return wrong("prompt must be a text, or a list of texts and tokens");
    AFI_TRY(const auto tokens,
            tokenizer_.tokenize(text.get<std::string>(), {.add_special = prompt.tokens.empty()}));
    for (const TokenId token : tokens) {
      AFI_TRY(const std::string bytes, tokenizer_.bytes_of(token));
      prompt.tokens.push_back(token);
      prompt.text += bytes;
    }
    return {};
  }

  Result<void> read_prompts() {
    const Json prompt = root_.value("prompt", Json());
    // A list with a number is one prompt.
    asked_.is_list =
        prompt.is_array() && std::ranges::none_of(prompt, [](auto& p) { return p.is_number(); });
    if (!asked_.is_list) return append(prompt, asked_.prompts.emplace_back());
    for (const Json& one : prompt) AFI_TRY_VOID(append(one, asked_.prompts.emplace_back()));
    if (asked_.prompts.empty()) return wrong("prompt must not be empty");
    return {};
  }

  /// OpenAI's API names tokens by their ids only.
  Result<Json> biases() const {
    Json named = Json::object();
    const auto add = [&](const Json& key, const Json& bias) -> Result<void> {
      const std::string name = key.is_string() ? key.get<std::string>() : key.dump();
      const bool is_id =
          !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
      if (is_id) {
        named[name] = bias;
        return {};
      }
      AFI_TRY(const auto tokens, tokenizer_.tokenize(name, {}));
      for (const TokenId token : tokens) {
        named[std::to_string(static_cast<std::int32_t>(token))] = bias;
      }
      return {};
    };
    const Json asked = root_.value("logit_bias", Json::object());  // outlives its items()
    constexpr const char* kForms = "logit_bias must be an object, or a list of pairs";
    if (!asked.is_structured() && !asked.is_null()) return wrong(kForms);
    const bool is_pair = asked.is_array();
    for (const auto& [key, value] : asked.items()) {
      if (is_pair && (!value.is_array() || value.size() != 2)) return wrong(kForms);
      AFI_TRY_VOID(is_pair ? add(value[0], value[1]) : add(key, value));
    }
    return named;
  }

  Result<void> read_fields() {
    Json body{{"prompt", "-"}};
    for (const auto& [name, value] : root_.items()) {
      const bool is_unset = is_one_of(name, kMayBeNegative) && value.is_number() && value < 0;
      if (!is_one_of(name, kChangeNothing) && !is_unset) body[name] = value;
    }
    AFI_TRY(body["logit_bias"], biases());
    const Json probabilities = root_.value("n_probs", Json(0));
    if (probabilities != 0) body["logprobs"] = probabilities;
    AFI_TRY(const bool after_sampling, flag("post_sampling_probs"));
    if (after_sampling) {
      return fail(ErrorCode::kUnsupported,
                  "post_sampling_probs is not supported: probabilities are those of the model");
    }
    AFI_TRY(asked_.returns_tokens, flag("return_tokens"));
    AFI_TRY(asked_.fields, read_api_request(ApiOperation::kCompletion, dumped(body)));
    AFI_TRY_VOID(engine_request(asked_.fields));
    if (asked_.fields.engine->details.any()) {
      return fail(
          ErrorCode::kUnsupported,
          "'verbose' and 'timings_per_token' are not supported: every result has its prompt "
          "and timings");
    }
    AFI_TRY(asked_.options, generate_options(asked_.fields, defaults_, &tokenizer_));
    return {};
  }

  const Tokenizer& tokenizer_;
  const GenerateOptions& defaults_;
  const Json& root_;
  NativeRequest asked_;
};

Json probability_of(const TokenLogprob& token) {
  return Json{{"id", static_cast<std::int32_t>(token.token)},
              {"token", token.bytes},
              {"bytes", bytes_of(token.bytes)},
              {"logprob", std::isfinite(token.logprob) ? token.logprob : -9999.0F}};
}

Json probabilities_of(std::span<const TokenLogprobs> tokens) {
  Json list = Json::array();
  for (const TokenLogprobs& token : tokens) {
    Json one = probability_of(token.chosen);
    one["top_logprobs"] = Json::array();
    for (const TokenLogprob& other : token.top)
      one["top_logprobs"].push_back(probability_of(other));
    list.push_back(std::move(one));
  }
  return list;
}

Json ids_of(std::span<const TokenId> tokens) {
  Json ids = Json::array();
  for (const TokenId token : tokens) ids.push_back(static_cast<std::int32_t>(token));
  return ids;
}

/// "a/b" names a member of a member; "list/0" an element. nullptr: there is none. Not a json_pointer:
/// that throws where a client's text is none.
const Json* named(const Json& whole, std::string_view path) {
  const Json* found = path.empty() ? nullptr : &whole;
  while (found != nullptr && !path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(name.size() + 1, path.size()));
    const Json& in = *std::exchange(found, nullptr);
    std::size_t index = in.size();
    std::from_chars(name.data(), name.data() + name.size(), index);
    if (in.is_array() && index < in.size()) found = &in[index];
    if (!in.is_object()) continue;
    if (const auto member = in.find(std::string(name)); member != in.end()) found = &*member;
  }
  return found;
}

Json selected(const Json& whole, const std::vector<std::string>& fields) {
  if (fields.empty()) return whole;
  Json some = Json::object();
  for (const std::string& field : fields) {
    if (const Json* const found = named(whole, field)) some[field] = *found;
  }
  return some;
}

/// One event of a stream: new text, and the tokens since the last event.
Json event_of(const NativeRequest& asked, std::size_t index, std::string_view more,
              std::span<const TokenLogprobs> tokens) {
  Json ids = Json::array();
  for (const TokenLogprobs& token : tokens) {
    ids.push_back(static_cast<std::int32_t>(token.chosen.token));
  }
  Json event{{"index", index},
             {"content", std::string(more)},
             {"tokens", std::move(ids)},
             {"stop", false},
             {"id_slot", -1},
             {"tokens_evaluated", asked.prompts[index].tokens.size()}};
  if (asked.options.top_logprobs.has_value()) {
    event["completion_probabilities"] = probabilities_of(tokens);
  }
  return event;
}

/// The whole result; the last event of a stream is one without the text.
Json result_of(const NativeRequest& asked, std::size_t index, const Served& served,
               const std::string& model) {
  const Completion& done = served.completion;
  const Prompt& prompt = asked.prompts[index];
  const bool is_stream = asked.fields.stream;
  const bool is_limited = done.tokens.size() >= asked.options.max_tokens.value();
  Json result{{"index", index},
              {"content", is_stream ? "" : done.text},
              {"tokens", asked.returns_tokens && !is_stream ? ids_of(done.tokens) : Json::array()},
              {"id_slot", -1},
              {"stop", true},
              {"model", model},
              {"tokens_predicted", done.tokens.size()},
              {"tokens_evaluated", prompt.tokens.size()},
              {"generation_settings", generation_settings(asked.options)},
              {"prompt", prompt.text},
              {"has_new_line", done.text.contains('\n')},
              {"truncated", !done.ended && !is_limited},  // by the end of the context
              {"stop_type", !done.ended    ? "limit"
                            : done.stopped ? "word"
                                           : "eos"},
              {"tokens_cached", prompt.tokens.size() + done.tokens.size()},
              {"timings", timings(served)}};
  if (asked.options.top_logprobs.has_value() && !is_stream) {
    result["completion_probabilities"] = probabilities_of(done.logprobs);
  }
  return selected(result, asked.response_fields);
}

std::string event_text(const Json& json) { return "data: " + dumped(json) + "\n\n"; }

}  // namespace

std::size_t NativeRequest::longest_prompt() const {
  std::size_t most = 0;
  for (const Prompt& prompt : prompts) most = std::max(most, prompt.tokens.size());
  return most;
}

Result<NativeRequest> NativeCompletion::read(const std::string& body) const {
  const Tokenizer* const tokenizer = engine.tokenizer();
  if (tokenizer == nullptr) {
    return fail(ErrorCode::kUnsupported, "this engine has no tokenizer; --engine llama has one");
  }
  JsonReader reader;  // refuses what the other parser would take
  AFI_TRY(const JsonValue checked, reader.read(body));
  if (!checked.is(JsonKind::kObject)) return wrong("the body must be a JSON object");
  const Json root = Json::parse(body);
  return Reading(*tokenizer, defaults, root).run();
}

Result<std::string> NativeCompletion::answer(const NativeRequest& asked,
                                             const std::function<void(const std::string&)>& send,
                                             const std::stop_token& stop) const {
  Json results = Json::array();
  for (std::size_t index = 0; index < asked.prompts.size(); ++index) {
    AFI_TRY(Request request, engine_request(asked.fields));
    request.messages.clear();
    request.prompt_tokens = asked.prompts[index].tokens;
    AFI_TRY(const RequestIdentity identity,
            identify_inputs(request, engine, space, &reuse.wall_clock()));
    std::vector<TokenLogprobs> unsent;
    GenerateOptions options = asked.options;
    if (asked.fields.stream) {
      options.top_logprobs = asked.options.top_logprobs.value_or(0);
      options.on_logprobs = [&](const TokenLogprobs& token) { unsent.push_back(token); };
    }
    options.on_text = [&](std::string_view more) {
      if (asked.fields.stream) send(event_text(event_of(asked, index, more, unsent)));
      unsent.clear();
      return !stop.stop_requested();
    };
    AFI_TRY(const Served served, serve(identity, engine, reuse, options, stop));
    results.push_back(result_of(asked, index, served, model));
    if (asked.fields.stream) send(event_text(results.back()));
  }
  if (asked.fields.stream) return "";
  return dumped(asked.is_list ? results : results.front());
}

}  // namespace afterimage
