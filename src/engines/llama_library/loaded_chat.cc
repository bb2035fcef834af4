// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/loaded_chat.h"

#include <llama-common/json-schema-to-grammar.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "engines/llama_library/library.h"
#include "engines/llama_library/loaded_chat_state.h"
#include "engines/llama_library/request_limits.h"
#include "foundation/text/ascii.h"

namespace afterimage {
namespace {

std::unexpected<Error> refused(const std::exception& cause) {
  return fail(ErrorCode::kInvalidArgument,
              "the model's chat template does not take this request: " + std::string(cause.what()));
}

/// JSON text without escapes that hide a control token's spelling, and with the rest broken.
std::string safe_json(const LoadedModel& model, const std::string& text) {
  const common_json parsed = common_json::parse_no_throw(text);
  return model.without_control_tokens(parsed.is_discarded() ? text : parsed.dump());
}

std::string text_of(const LoadedModel& model, const Message& message) {
  std::string text;
  for (const ContentPart& part : message.parts) {
    const auto* const words = std::get_if<std::string>(&part);
    text += words != nullptr ? *words : model.marker();
  }
  return model.without_control_tokens(std::move(text));
}

common_chat_msg message_of(const LoadedModel& model, const Message& message) {
  const auto safe = [&](const std::string& text) { return model.without_control_tokens(text); };
  common_chat_msg made;
  made.role = to_string(message.role);
  made.content = text_of(model, message);
  made.reasoning_content = safe(message.reasoning);
  made.tool_call_id = safe(message.tool_call_id);
  made.tool_name = safe(message.name);
  for (const ToolCall& call : message.tool_calls) {
    made.tool_calls.push_back({.name = safe(call.name),
                               .arguments = safe_json(model, call.arguments),
                               .id = safe(call.id)});
  }
  return made;
}

/// {"type": "function", "function": {"name": "f"}}: only that one, and it must be called.
void choose_tool(const std::string& choice, common_chat_templates_inputs& inputs) {
  const common_json read = common_json::parse(choice);
  if (read.is_string()) {
    inputs.tool_choice = common_chat_tool_choice_parse_oaicompat(read.get<std::string>());
    return;
  }
  const auto name = read.at("function").at("name").get<std::string>();
  std::erase_if(inputs.tools, [&](const common_chat_tool& tool) { return tool.name != name; });
  if (inputs.tools.empty()) throw std::invalid_argument("tool_choice names no tool: " + name);
  inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED;
}

/// An absent or empty schema means any object.
std::string schema_of(const std::string& response_format) {
  const common_json format = common_json::parse(response_format);
  const bool is_wrapped = format.contains("json_schema");
  const common_json holder = is_wrapped ? common_json(format.at("json_schema")) : format;
  std::string schema = holder.contains("schema") ? holder.at("schema").dump() : "{}";
  return schema == "{}" ? R"({"type":"object"})" : schema;
}

void add_template_value(const std::string& name, const common_json& value,
                        common_chat_templates_inputs& inputs) {
  if (name == "reasoning_effort" && value == "none") {
    inputs.enable_thinking = false;
    return;
  }
  if (name == "enable_thinking") {
    if (!value.is_boolean()) throw std::invalid_argument("enable_thinking must be true or false");
    inputs.enable_thinking = value.get<bool>();
  }
  inputs.chat_template_kwargs[name] = value.dump();
}

/// As llama-server: an assistant's last message is the beginning of the answer.
void end_prompt(PromptEnd end, common_chat_templates_inputs& inputs) {
  const auto is_assistants = [&](std::size_t from_last) {
    const std::size_t count = inputs.messages.size();
    return count > from_last && inputs.messages[count - 1 - from_last].role == "assistant";
  };
  if (end == PromptEnd::kAfterMessages) inputs.add_generation_prompt = false;
  const bool continues = end == PromptEnd::kInLastMessage;
  if (!continues && (end != PromptEnd::kDefault || !is_assistants(0))) return;
  if (!is_assistants(0)) {
    throw std::invalid_argument("continue_final_message needs a last message of the assistant");
  }
  if (is_assistants(1)) throw std::invalid_argument("the last two messages are the assistant's");
  if (!inputs.messages.back().tool_calls.empty()) {
    throw std::invalid_argument("an assistant's message with tool calls cannot be continued");
  }
  inputs.continue_final_message = COMMON_CHAT_CONTINUATION_AUTO;
  inputs.add_generation_prompt = false;
}

common_chat_templates_inputs inputs_of(const LoadedModel& model, const Request& request) {
  const AnswerRules& rules = request.rules;
  common_chat_templates_inputs inputs;
  for (const Message& message : request.messages) {
    inputs.messages.push_back(message_of(model, message));
  }
  if (!rules.tools.empty()) {
    inputs.tools =
        common_chat_tools_parse_oaicompat(common_json::parse(safe_json(model, rules.tools)));
  }
  if (!rules.tool_choice.empty()) choose_tool(rules.tool_choice, inputs);
  if (!rules.response_format.empty()) {
    inputs.json_schema = model.without_control_tokens(schema_of(rules.response_format));
  }
  inputs.grammar = rules.grammar;
  inputs.enable_thinking = model.state().loaded_with.thinks.value_or(true);
  if (!rules.template_values.empty()) {
    const common_json values = common_json::parse(safe_json(model, rules.template_values));
    for (const auto& [name, value] : values.items()) {  // which `values` has to outlive
      add_template_value(name, value, inputs);
    }
  }
  end_prompt(rules.prompt_end, inputs);
  inputs.parallel_tool_calls = rules.parallel_tool_calls;
  inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  return inputs;
}

std::vector<llama_token> tokens_of(const llama_vocab* vocabulary, const std::string& text) {
  return common_tokenize(vocabulary, text, false, true);
}

/// Of what the template begins an answer with. Some tokenizers put a space before a text, which is not
/// in the prompt there.
std::vector<llama_token> prefill_of(const llama_vocab* vocabulary, const std::string& begun) {
  std::vector<llama_token> tokens = tokens_of(vocabulary, begun);
  if (tokens.empty() || begun.starts_with(' ')) return tokens;
  const std::string first = common_token_to_piece(vocabulary, tokens.front(), true);
  if (first.starts_with(' ')) tokens.erase(tokens.begin());
  return tokens;
}

void add_trigger(const llama_vocab* vocabulary, const common_grammar_trigger& trigger,
                 ChatFormat::State& state) {
  if (trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN) {
    state.trigger_tokens.push_back(trigger.token);
  } else if (trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN) {
    state.trigger_patterns.push_back(trigger.value);
  } else if (trigger.type == COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL) {
    state.trigger_patterns.push_back("^" + trigger.value + "$");
  } else if (const auto ids = tokens_of(vocabulary, trigger.value); ids.size() == 1) {
    state.trigger_tokens.push_back(ids.front());
  } else {
    state.trigger_patterns.push_back(regex_escape(trigger.value));
  }
}

/// The parser also reads what the prompt has of a continued message.
std::string without(const std::string& begun, const std::string& text) {
  return text.starts_with(begun) ? text.substr(begun.size()) : text;
}

/// nullptr: the answer is plain text.
std::shared_ptr<const ChatFormat> format_of(const llama_vocab* vocabulary,
                                            const common_chat_params& params,
                                            const AnswerRules& rules, bool is_continued = false) {
  const bool is_plain = rules == AnswerRules{} && !params.supports_thinking && !is_continued;
  if (is_plain && params.grammar.empty() && params.additional_stops.empty()) return nullptr;
  auto state = std::make_unique<ChatFormat::State>();
  state->parser = common_chat_parser_params(params);
  state->parser.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  if (!params.parser.empty()) state->parser.parser.load(params.parser);
  if (is_continued) {
    state->parser.is_continuation = true;
    const common_chat_msg begun = common_chat_parse("", true, state->parser);
    state->begun_content = begun.content;
    state->begun_reasoning = begun.reasoning_content;
  }
  state->grammar = rules.grammar.empty() ? params.grammar : rules.grammar;
  state->is_lazy = params.grammar_lazy;
  for (const auto& trigger : params.grammar_triggers) add_trigger(vocabulary, trigger, *state);
  // A client's own grammar describes what follows the prompt; the others the answer as a whole.
  if (rules.grammar.empty() && !state->is_lazy) {
    state->prefill = prefill_of(vocabulary, params.generation_prompt);
  }
  for (const std::string& token : params.preserved_tokens) {
    const auto ids = tokens_of(vocabulary, token);
    if (ids.size() == 1) state->preserved.insert(ids.front());
  }
  state->stops = params.additional_stops;
  return std::make_shared<const ChatFormat>(std::move(state));
}

/// Of an answer without a template whose source is known: constrained by a schema or a grammar only.
Result<std::shared_ptr<const ChatFormat>> untemplated_format(const LoadedModel& model,
                                                             const AnswerRules& rules) {
  try {
    common_chat_params params;
    if (!rules.response_format.empty()) {
      params.grammar = json_schema_to_grammar(common_json::parse(schema_of(rules.response_format)));
    }
    return format_of(model.state().vocabulary, params, rules);
  } catch (const std::exception& cause) {
    return refused(cause);
  }
}

std::unexpected<Error> no_template_values() {
  return fail(
      ErrorCode::kUnsupported,
      "'chat_template_kwargs' and 'reasoning_effort' need a chat whose template's source is "
      "known");
}

Result<void> check_prompt_end(const AnswerRules& rules) {
  if (rules.prompt_end == PromptEnd::kDefault || rules.prompt_end == PromptEnd::kNewAnswer) {
    return {};
  }
  return fail(ErrorCode::kUnsupported,
              "'continue_final_message' and 'add_generation_prompt' need a chat whose template's "
              "source is known");
}

/// Bytes from the beginning of the message's text to the end of the prompt, and from its end; 0: it is
/// not found there. Templates leave out blanks around a text.
struct TextPlace {
  std::size_t from_begin = 0;
  std::size_t from_end = 0;
};
TextPlace find_text(const LoadedModel& model, const Message& message, std::string_view prompt) {
  const std::string text = text_of(model, message);
  const std::string_view words = ascii::trimmed(text, " \t\r\n");
  const std::size_t at = words.empty() ? std::string_view::npos : prompt.rfind(words);
  if (at == std::string_view::npos) return {};
  return {.from_begin = prompt.size() - at, .from_end = prompt.size() - at - words.size()};
}

void find_branches(const LoadedModel& model, const Request& request, RenderedChat& chat) {
  const auto last = std::ranges::find(request.messages.rbegin(), request.messages.rend(),
                                      Role::kUser, &Message::role);
  if (last == request.messages.rend()) return;
  const TextPlace question = find_text(model, *last, chat.prompt);
  const bool is_last = last == request.messages.rbegin();
  const TextPlace end = is_last ? question : find_text(model, request.messages.back(), chat.prompt);
  const std::string tail = ascii::lowered(chat.prompt.substr(chat.prompt.size() - end.from_end));
  chat.from_question = question.from_begin;
  if (tail.contains("think") || tail.contains("thought")) chat.from_thought = end.from_end;
}

/// With one of the library's built-in templates, which know neither tools nor their results.
Result<RenderedChat> render_named(const LoadedModel& model, const Request& request) {
  const AnswerRules& rules = request.rules;
  const bool has_calls = std::ranges::any_of(
      request.messages, [](const Message& message) { return !message.tool_calls.empty(); });
  if (!rules.tools.empty() || has_calls) {
    return fail(ErrorCode::kUnsupported,
                "tools need the source of a chat template, but --chat-template names one that is "
                "built in");
  }
  if (!rules.template_values.empty()) return no_template_values();
  AFI_TRY_VOID(check_prompt_end(rules));
  std::vector<ChatTurn> turns;
  for (const Message& message : request.messages) {
    turns.push_back(
        {.role = std::string(to_string(message.role)), .text = text_of(model, message)});
  }
  RenderedChat rendered;
  AFI_TRY(rendered.prompt, model.apply_template(turns));
  find_branches(model, request, rendered);
  AFI_TRY(rendered.format, untemplated_format(model, rules));
  return rendered;
}

/// A completion: the text is the prompt.
Result<RenderedChat> render_completion(const LoadedModel& model, const Request& request) {
  if (!request.rules.tools.empty()) {
    return fail(ErrorCode::kUnsupported, "a completion has no 'tools': send a chat");
  }
  if (!request.rules.template_values.empty()) return no_template_values();
  AFI_TRY_VOID(check_prompt_end(request.rules));
  RenderedChat rendered;
  for (const Message& message : request.messages) rendered.prompt += text_of(model, message);
  AFI_TRY(rendered.format, untemplated_format(model, request.rules));
  return rendered;
}

}  // namespace

ChatFormat::ChatFormat(std::unique_ptr<const State> state) : state_(std::move(state)) {}
ChatFormat::~ChatFormat() = default;
const std::vector<std::string>& ChatFormat::stops() const { return state_->stops; }

Result<AnswerMessage> ChatFormat::read(std::string_view text, bool is_whole) const {
  AFI_TRY_VOID(check_answer(text));
  try {
    const common_chat_msg read = common_chat_parse(std::string(text), !is_whole, state_->parser);
    AnswerMessage message{.content = without(state_->begun_content, read.content),
                          .reasoning = without(state_->begun_reasoning, read.reasoning_content),
                          .tool_calls = {}};
    for (const common_chat_tool_call& call : read.tool_calls) {
      message.tool_calls.push_back({.id = call.id, .name = call.name, .arguments = call.arguments});
    }
    return message;
  } catch (const std::exception& cause) {
    return fail(ErrorCode::kCorruption,
                "the model's answer does not have its format: " + std::string(cause.what()));
  }
}

namespace {

/// Asked of the template itself: what of a tool with two fixed arguments is in the grammar of its call?
CallArguments arguments_with(const common_chat_templates* templates) {
  constexpr const char* kText = "afterimage-text";
  constexpr const char* kNumber = "73519";
  common_chat_templates_inputs inputs;
  common_chat_msg question;
  question.role = "user";
  question.content = "?";
  inputs.messages.push_back(question);
  inputs.tools.push_back(
      {.name = "probe",
       .description = "",
       .parameters =
           std::string(R"({"type":"object","properties":{"text":{"type":"string","enum":[")") +
           kText + R"("]},"number":{"type":"integer","enum":[)" + kNumber +
           R"(]}},"required":["text","number"]})"});
  inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED;
  try {
    const std::string grammar = common_chat_templates_apply(templates, inputs).grammar;
    if (!grammar.contains(kNumber)) return CallArguments::kFree;
    return grammar.contains(kText) ? CallArguments::kJson : CallArguments::kTaggedText;
  } catch (const std::exception&) {
    return CallArguments::kFree;  // a template that takes no such request
  }
}

}  // namespace

std::vector<std::string> unenforced(const LoadedModel& model, const AnswerRules& rules) {
  return unenforced_rules(rules, model.state().call_arguments);
}

Result<void> LoadedModel::State::load_template(const LlamaOptions& options) {
  std::vector<const char*> names(256);
  const auto count = llama_chat_builtin_templates(names.data(), names.size());
  const auto known = std::span(names).first(static_cast<std::size_t>(std::max(count, 0)));
  const auto is_named = [&](const char* name) { return chat_template == name; };
  if (chat_template.empty() || std::ranges::any_of(known, is_named)) return {};
  try {
    templates = common_chat_templates_init(model.get(), options.chat_template);
    call_arguments = arguments_with(templates.get());
    return {};
  } catch (const std::exception& cause) {
    return fail(ErrorCode::kUnsupported,
                "the chat template cannot be read: " + std::string(cause.what()) +
                    "; choose another with --chat-template");
  }
}

Result<RenderedChat> render_chat(const LoadedModel& model, const Request& request) {
  AFI_TRY_VOID(check_request(request));
  if (request.is_completion) return render_completion(model, request);
  const auto* const templates = model.state().templates.get();
  if (templates == nullptr) return render_named(model, request);
  for (const Message& message : request.messages) {
    for (const ContentPart& part : message.parts) {
      const auto* const text = std::get_if<std::string>(&part);
      if (text != nullptr && text->contains('\0')) {
        return fail(ErrorCode::kInvalidArgument,
                    "a message contains a zero byte, which is not allowed");
      }
    }
  }
  try {
    const auto inputs = inputs_of(model, request);
    auto params = common_chat_templates_apply(templates, inputs);
    const bool offers_tools =
        !inputs.tools.empty() && inputs.tool_choice != COMMON_CHAT_TOOL_CHOICE_NONE;
    const bool lacks_tools =
        offers_tools && !common_chat_templates_get_caps(templates)["supports_tools"];
    const bool is_continued = inputs.continue_final_message != COMMON_CHAT_CONTINUATION_NONE;
    auto format = format_of(model.state().vocabulary, params, request.rules, is_continued);
    RenderedChat chat{.prompt = std::move(params.prompt),
                      .format = std::move(format),
                      .lacks_tools = lacks_tools};
    find_branches(model, request, chat);
    return chat;
  } catch (const std::exception& cause) {
    return refused(cause);
  }
}

}  // namespace afterimage
