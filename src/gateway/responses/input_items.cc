// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/responses/input_items.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "foundation/text/data_url.h"
#include "gateway/protocol/fields.h"
#include "gateway/protocol/volatile_blocks.h"

namespace afterimage {
namespace {

/// The text of a content that has nothing else, without volatile lines unless it keeps them; nullopt: it
/// has, or is none.
std::optional<std::string> text_of(const JsonValue& content, bool keeps, bool& has_volatile) {
  const auto rest_of = [&](std::string_view text) {
    const std::string_view rest = keeps ? text : without_volatile_line(text);
    has_volatile = has_volatile || rest.size() != text.size();
    return std::string(rest);
  };
  if (content.is(JsonKind::kString)) return rest_of(content.text());
  std::string all;
  for (const JsonValue part : content) {
    const std::string_view type = part["type"].text();
    const bool is_text = type == "input_text" || type == "output_text" || type == "text";
    if (!is_text || !part["text"].is(JsonKind::kString)) return std::nullopt;
    all += (all.empty() ? "" : "\n\n") + rest_of(part["text"].text());
  }
  return content.is_empty() ? std::nullopt : std::optional(all);
}

}  // namespace

std::string chat_call(std::string_view id, std::string_view name, std::string_view arguments) {
  const std::string function =
      JsonObject().add_text("name", name).add_text("arguments", arguments).text();
  return JsonObject()
      .add_text("id", id)
      .add_text("type", "function")
      .add("function", function)
      .text();
}

std::string assistant_message(std::string_view content, std::string_view refusal,
                              std::string_view reasoning, const JsonArray& calls) {
  JsonObject message;
  message.add_text("role", "assistant").add("content", content);
  if (!refusal.empty()) message.add_text("refusal", refusal);
  if (!reasoning.empty()) message.add_text("reasoning_content", reasoning);
  if (!calls.is_empty()) message.add("tool_calls", calls.text());
  return message.text();
}

void InputItems::add(std::string_view message) {
  if (!messages_.empty()) messages_.push_back(',');
  messages_.append(message);
}

void InputItems::end_assistant() {
  const Assistant said = std::exchange(assistant_, {});
  const bool says_something =
      !said.content.is_empty() || !said.refusal.empty() || !said.calls.is_empty();
  // Reasoning that nothing followed was of no message.
  if (!said.is_there || !says_something) return;
  add(assistant_message(said.content.json(), said.refusal, said.reasoning, said.calls));
}

/// The item as it was sent, with an id.
void InputItems::keep_item(const JsonValue& item, std::string_view prefix) {
  if (item["id"].is(JsonKind::kString)) {
    items_.add(canonical(item));
    return;
  }
  JsonObject kept;
  kept.add_text("id", std::string(prefix) + id_ + "_" + std::to_string(count_));
  if (item["type"].is_none()) kept.add_text("type", "message");
  for (const JsonValue member : item) {
    if (!member.is(JsonKind::kNull)) kept.add_value(member.key(), member);
  }
  items_.add(kept.text());
}

Result<void> InputItems::read(const JsonValue& input) {
  if (input.is(JsonKind::kString)) {
    ChatContent content;
    content.add_text(input.text());
    add(JsonObject().add_text("role", "user").add("content", content.json()).text());
    const std::string part =
        JsonObject().add_text("type", "input_text").add_text("text", input.text()).text();
    items_.add(JsonObject()
                   .add_text("id", "msg_" + id_ + "_0")
                   .add_text("type", "message")
                   .add_text("role", "user")
                   .add("content", "[" + part + "]")
                   .text());
    return {};
  }
  if (!input.is(JsonKind::kArray))
    return wrong_field("input", "must be a string or a list of items");
  for (const JsonValue item : input) {
    AFI_TRY_VOID(add_item(item, element("input", count_)));
    ++count_;
  }
  end_assistant();
  return {};
}

Result<void> InputItems::add_item(const JsonValue& item, const std::string& place) {
  if (!item.is(JsonKind::kObject)) return wrong_field(place, "must be an object");
  const JsonValue type = item["type"];
  const std::string_view name = type.is_none() ? "message" : type.text();
  if (name == "message") return add_message(item, place);
  if (name == "function_call") return add_call(item, place);
  if (name == "custom_tool_call") return add_custom_call(item, place);
  if (name == "function_call_output" || name == "custom_tool_call_output") {
    return add_call_output(item, place);
  }
  if (name == "tool_search_call") return add_search_call(item, place);
  if (name == "tool_search_output") return add_search_output(item, place);
  if (name == "additional_tools") return add_tools(item, place);
  if (name == "agent_message") return add_agent_message(item, place);
  // What a server of OpenAI's did: its result is in what the assistant said then.
  if (name == "web_search_call" || name == "file_search_call") {
    ignored_.push_back(place);
    return {};
  }
  if (name == "reasoning") return add_reasoning(item, place);
  if (name == "item_reference") {
    return untranslatable(place,
                          "name the whole response in previous_response_id, or send the item");
  }
  return untranslatable(place,
                        "a chat completion has no items of the type '" + std::string(name) + "'");
}

Result<void> InputItems::add_message(const JsonValue& item, const std::string& place) {
  AFI_TRY_VOID(check_members(item, place, {"type", "role", "content", "id", "status", "phase"}));
  AFI_TRY(const std::string_view role, text_field(item["role"], place + ".role"));
  if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
    return wrong_field(place + ".role", "must be user, assistant, system or developer");
  }
  keep_item(item, "msg_");
  if (role == "system" || role == "developer") {
    bool has_volatile = false;
    if (const auto text = text_of(item["content"], keeps_billing_lines_, has_volatile)) {
      if (has_volatile) ignored_.push_back(place + ".content");
      if (has_volatile) ++billing_lines_;
      if (has_volatile && text->empty()) return {};
      end_assistant();
      add_instructions(*text);
      return {};
    }
  }
  const bool is_assistant = role == "assistant";
  // One message of an assistant ends where the next begins.
  if (!is_assistant || !assistant_.content.is_empty() || !assistant_.calls.is_empty()) {
    end_assistant();
  }
  ChatContent other;
  ChatContent& content = is_assistant ? assistant_.content : other;
  assistant_.is_there = assistant_.is_there || is_assistant;
  const JsonValue said = item["content"];
  if (said.is(JsonKind::kString)) {
    content.add_text(said.text());
  } else if (said.is(JsonKind::kArray)) {
    AFI_TRY_VOID(add_parts(said, place + ".content", content));
  } else {
    return wrong_field(place + ".content", "must be a string or a list of parts");
  }
  if (is_assistant) return {};
  if (content.is_empty()) return wrong_field(place + ".content", "must not be empty");
  add(JsonObject().add_text("role", role).add("content", content.json()).text());
  return {};
}

/// Before all else they are the chat's system message; later the user's, as templates take one system
/// message, at the beginning (decision 0042).
void InputItems::add_instructions(const std::string& text) {
  if (messages_.empty() && !goes_on_) {
    instructions_ += (instructions_.empty() ? "" : "\n\n") + text;
    return;
  }
  add(JsonObject()
          .add_text("role", "user")
          .add_text("content", "<system-reminder>\n" + text + "\n</system-reminder>")
          .text());
}

Result<void> InputItems::add_parts(const JsonValue& parts, const std::string& place,
                                   ChatContent& content) {
  std::size_t index = 0;
  for (const JsonValue part : parts) {
    const std::string inner = element(place, index++);
    if (part["type"].text() == "refusal" && &content == &assistant_.content) {
      AFI_TRY_VOID(check_members(part, inner, {"type", "refusal"}));
      AFI_TRY(const std::string_view text, text_field(part["refusal"], inner + ".refusal"));
      assistant_.refusal += text;
      continue;
    }
    AFI_TRY_VOID(add_part(part, inner, content));
  }
  return {};
}

Result<void> InputItems::add_part(const JsonValue& part, const std::string& place,
                                  ChatContent& content) {
  const std::string_view type = part["type"].text();
  if (type == "input_text" || type == "output_text" || type == "text") {
    AFI_TRY_VOID(check_members(part, place, {"type", "text", "annotations", "logprobs"}));
    AFI_TRY(const std::string_view text, text_field(part["text"], place + ".text"));
    content.add_text(text);
    return {};
  }
  if (type == "input_image") return add_image(part, place, content);
  if (type == "input_file") return add_file(part, place, content);
  if (!part["type"].is(JsonKind::kString)) return wrong_field(place + ".type", "must be a string");
  return untranslatable(
      place, "a chat completion has no content of the type '" + std::string(type) + "' here");
}

Result<UploadedFile> InputItems::file_of(const JsonValue& id, const std::string& place) const {
  AFI_TRY(const std::string_view text, text_field(id, place));
  auto file = files_(text);
  if (!file.has_value()) return fail(file.error().code, place + ": " + file.error().message);
  return file;
}

Result<void> InputItems::add_image(const JsonValue& part, const std::string& place,
                                   ChatContent& content) {
  AFI_TRY_VOID(check_members(part, place, {"type", "image_url", "file_id", "detail"}));
  const JsonValue asked = part["detail"];
  if (!asked.is_none()) AFI_TRY_VOID(text_field(asked, place + ".detail"));
  // As a chat that names none.
  const std::string_view detail = asked.text() == "auto" ? "" : asked.text();
  if (!part["file_id"].is_none()) {
    if (!part["image_url"].is_none()) {
      return wrong_field(place + ".file_id", "is given beside image_url");
    }
    AFI_TRY(const UploadedFile file, file_of(part["file_id"], place + ".file_id"));
    if (!file.type.starts_with("image/")) {
      return wrong_field(place + ".file_id",
                         "names a file of the type " + file.type + ", not an image");
    }
    return content.add_file(file, place + ".file_id", detail);
  }
  AFI_TRY(const std::string_view url, text_field(part["image_url"], place + ".image_url"));
  if (url.empty()) return wrong_field(place + ".image_url", "must be a non-empty string");
  content.add_image(url, detail);
  return {};
}

Result<void> InputItems::add_file(const JsonValue& part, const std::string& place,
                                  ChatContent& content) {
  AFI_TRY_VOID(check_members(part, place, {"type", "file_id", "file_data", "filename"}));
  if (!part["file_id"].is_none()) {
    AFI_TRY(const UploadedFile file, file_of(part["file_id"], place + ".file_id"));
    return content.add_file(file, place + ".file_id");
  }
  AFI_TRY(const std::string_view data, text_field(part["file_data"], place + ".file_data"));
  if (!is_data_url(data)) return wrong_field(place + ".file_data", "must be a data URL");
  const auto read = decode_data_url(data);
  if (!read.has_value()) {
    return wrong_field(place + ".file_data", "cannot be decoded: " + read.error().message);
  }
  std::string bytes(read->bytes.size(), '\0');
  std::memcpy(bytes.data(), read->bytes.data(), bytes.size());
  const std::string type = read->type.substr(0, read->type.find(';'));
  return content.add_file(
      {.type = type, .bytes = std::make_shared<const std::string>(std::move(bytes))},
      place + ".file_data");
}

Result<void> InputItems::add_call(const JsonValue& item, const std::string& place) {
  AFI_TRY_VOID(check_members(
      item, place, {"type", "call_id", "name", "namespace", "arguments", "id", "status"}));
  AFI_TRY(const std::string_view id, text_field(item["call_id"], place + ".call_id"));
  AFI_TRY(const std::string_view name, text_field(item["name"], place + ".name"));
  AFI_TRY(const std::string_view arguments, text_field(item["arguments"], place + ".arguments"));
  keep_item(item, "fc_");
  add_call(id, chat_tool_name(item["namespace"].text(), name), arguments);
  return {};
}

void InputItems::add_call(std::string_view id, std::string_view name, std::string_view arguments) {
  assistant_.is_there = true;
  assistant_.calls.add(chat_call(id, name, arguments));
}

Result<void> InputItems::add_custom_call(const JsonValue& item, const std::string& place) {
  AFI_TRY_VOID(check_members(item, place,
                             {"type", "call_id", "name", "namespace", "input", "id", "status"}));
  AFI_TRY(const std::string_view id, text_field(item["call_id"], place + ".call_id"));
  AFI_TRY(const std::string_view name, text_field(item["name"], place + ".name"));
  AFI_TRY(const std::string_view input, text_field(item["input"], place + ".input"));
  keep_item(item, "ctc_");
  add_call(id, chat_tool_name(item["namespace"].text(), name),
           JsonObject().add_text("input", input).text());
  return {};
}

Result<void> InputItems::add_search_call(const JsonValue& item, const std::string& place) {
  AFI_TRY_VOID(
      check_members(item, place, {"type", "call_id", "execution", "arguments", "id", "status"}));
  AFI_TRY(const std::string_view id, text_field(item["call_id"], place + ".call_id"));
  const JsonValue arguments = item["arguments"];
  if (!arguments.is(JsonKind::kObject))
    return wrong_field(place + ".arguments", "must be an object");
  keep_item(item, "tsc_");
  add_call(id, kToolSearch, canonical(arguments));
  return {};
}

/// The tools that were found are the request's from now on; the model reads their names.
Result<void> InputItems::add_search_output(const JsonValue& item, const std::string& place) {
  AFI_TRY_VOID(
      check_members(item, place, {"type", "call_id", "execution", "tools", "id", "status"}));
  AFI_TRY(const std::string_view id, text_field(item["call_id"], place + ".call_id"));
  keep_item(item, "tso_");
  AFI_TRY_VOID(tools_.add_list(item["tools"], place + ".tools"));
  JsonArray names;
  for (const JsonValue tool : item["tools"]) {
    const std::string_view name = tool["name"].text();
    if (tool["type"].text() != "namespace") names.add(json_string(name));
    for (const JsonValue inner : tool["tools"]) {
      names.add(json_string(chat_tool_name(name, inner["name"].text())));
    }
  }
  ChatContent content;
  content.add_text(JsonObject().add("tools", names.text()).text());
  add_output(id, content);
  return {};
}

Result<void> InputItems::add_tools(const JsonValue& item, const std::string& place) {
  AFI_TRY_VOID(check_members(item, place, {"type", "role", "tools", "id", "status"}));
  keep_item(item, "at_");
  return tools_.add_list(item["tools"], place + ".tools");
}

/// What another agent of the client says: to the model of this one a user's message.
Result<void> InputItems::add_agent_message(const JsonValue& item, const std::string& place) {
  AFI_TRY_VOID(
      check_members(item, place, {"type", "author", "recipient", "content", "id", "status"}));
  keep_item(item, "am_");
  end_assistant();
  ChatContent content;
  if (!item["author"].is_none()) {
    AFI_TRY(const std::string_view author, text_field(item["author"], place + ".author"));
    content.add_text("Message from " + std::string(author) + ":");
  }
  if (!item["content"].is(JsonKind::kArray)) {
    return wrong_field(place + ".content", "must be a list of parts");
  }
  AFI_TRY_VOID(add_parts(item["content"], place + ".content", content));
  if (content.is_empty()) return wrong_field(place + ".content", "must not be empty");
  add(JsonObject().add_text("role", "user").add("content", content.json()).text());
  return {};
}

Result<void> InputItems::add_call_output(const JsonValue& item, const std::string& place) {
  AFI_TRY_VOID(check_members(item, place, {"type", "call_id", "name", "output", "id", "status"}));
  AFI_TRY(const std::string_view id, text_field(item["call_id"], place + ".call_id"));
  keep_item(item, "fco_");
  ChatContent content;
  const JsonValue output = item["output"];
  if (output.is(JsonKind::kString)) {
    content.add_text(output.text());
  } else if (output.is(JsonKind::kArray)) {
    AFI_TRY_VOID(add_parts(output, place + ".output", content));
  } else {
    return wrong_field(place + ".output", "must be a string or a list of parts");
  }
  if (content.is_empty()) content.add_text("");
  add_output(id, content);
  return {};
}

void InputItems::add_output(std::string_view id, const ChatContent& content) {
  end_assistant();
  add(JsonObject()
          .add_text("role", "tool")
          .add_text("tool_call_id", id)
          .add("content", content.json())
          .text());
}

/// What was reasoned before the assistant's next message; summaries and encrypted content are for the
/// server that wrote them.
Result<void> InputItems::add_reasoning(const JsonValue& item, const std::string& place) {
  AFI_TRY_VOID(check_members(item, place,
                             {"type", "id", "summary", "content", "encrypted_content", "status"}));
  keep_item(item, "rs_");
  if (!assistant_.content.is_empty() || !assistant_.calls.is_empty()) end_assistant();
  for (const JsonValue part : item["content"]) {
    if (part["type"].text() == "reasoning_text") {
      AFI_TRY(const std::string_view text, text_field(part["text"], place + ".content[].text"));
      assistant_.reasoning += text;
      assistant_.is_there = assistant_.is_there || !text.empty();
    }
  }
  return {};
}

}  // namespace afterimage
