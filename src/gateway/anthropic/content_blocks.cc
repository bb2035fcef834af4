// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/anthropic/content_blocks.h"

#include <utility>
#include <vector>

#include "foundation/text/data_url.h"
#include "gateway/protocol/fields.h"
#include "gateway/protocol/volatile_blocks.h"

namespace afterimage {
namespace {

std::string message_of(std::string_view role, const ChatContent& content) {
  return JsonObject().add_text("role", role).add("content", content.json()).text();
}

Result<UploadedFile> file_of(const JsonValue& source, const std::string& place,
                             const FileLookup& files) {
  AFI_TRY_VOID(check_members(source, place, {"type", "file_id"}));
  AFI_TRY(const std::string_view id, text_field(source["file_id"], place + ".file_id"));
  auto file = files(id);
  if (!file.has_value())
    return fail(file.error().code, place + ".file_id: " + file.error().message);
  return file;
}

Result<std::string_view> text_of_block(const JsonValue& block, const std::string& place,
                                       const MessageContext& context) {
  AFI_TRY_VOID(check_members(block, place, {"type", "text", "cache_control", "citations"}));
  // Of an earlier answer: the model reads its text.
  if (!block["citations"].is_empty()) context.ignored.push_back(place + ".citations");
  return text_field(block["text"], place + ".text");
}

Result<void> add_text_block(const JsonValue& block, const std::string& place,
                            const MessageContext& context, ChatContent& content) {
  AFI_TRY(const std::string_view text, text_of_block(block, place, context));
  content.add_text(text);
  return {};
}

Result<void> add_image_block(const JsonValue& block, const std::string& place,
                             const MessageContext& context, ChatContent& content) {
  AFI_TRY_VOID(check_members(block, place, {"type", "source", "cache_control"}));
  const JsonValue source = block["source"];
  const std::string inner = place + ".source";
  const std::string_view type = source["type"].text();
  if (type == "base64") {
    AFI_TRY_VOID(check_members(source, inner, {"type", "media_type", "data"}));
    AFI_TRY(const std::string_view media, text_field(source["media_type"], inner + ".media_type"));
    AFI_TRY(const std::string_view data, text_field(source["data"], inner + ".data"));
    if (!is_media_type(media)) {
      return wrong_field(inner + ".media_type", "must be a media type, such as image/png");
    }
    content.add_image("data:" + std::string(media) + ";base64," + std::string(data));
    return {};
  }
  if (type == "url") {
    AFI_TRY_VOID(check_members(source, inner, {"type", "url"}));
    AFI_TRY(const std::string_view url, text_field(source["url"], inner + ".url"));
    if (url.empty()) return wrong_field(inner + ".url", "must be a non-empty string");
    content.add_image(url);
    return {};
  }
  if (type != "file") return wrong_field(inner + ".type", "must be base64, url or file");
  AFI_TRY(const UploadedFile file, file_of(source, inner, context.files));
  if (!file.type.starts_with("image/")) {
    return wrong_field(inner + ".file_id",
                       "names a file of the type " + file.type + ", not an image");
  }
  return content.add_file(file, inner + ".file_id");
}

Result<void> add_document(const JsonValue& block, const std::string& place,
                          const MessageContext& context, ChatContent& content) {
  AFI_TRY_VOID(check_members(block, place,
                             {"type", "source", "title", "context", "citations", "cache_control"}));
  if (block["citations"]["enabled"].is(JsonKind::kTrue)) {
    return untranslatable(place + ".citations", "a chat completion has none");
  }
  // As Anthropic's API does, the model is told both.
  for (const std::string_view name : {"title", "context"}) {
    const JsonValue value = block[name];
    if (value.is_none()) continue;
    AFI_TRY(const std::string_view text, text_field(value, place + "." + std::string(name)));
    if (!text.empty()) content.add_text(text);
  }
  const JsonValue source = block["source"];
  const std::string inner = place + ".source";
  const std::string_view type = source["type"].text();
  if (type == "text") {
    AFI_TRY_VOID(check_members(source, inner, {"type", "media_type", "data"}));
    AFI_TRY(const std::string_view text, text_field(source["data"], inner + ".data"));
    content.add_text(text);
    return {};
  }
  if (type == "file") {
    AFI_TRY(const UploadedFile file, file_of(source, inner, context.files));
    return content.add_file(file, inner + ".file_id");
  }
  if (type == "base64") {
    AFI_TRY_VOID(check_members(source, inner, {"type", "media_type", "data"}));
    AFI_TRY(const std::string_view media, text_field(source["media_type"], inner + ".media_type"));
    if (media != "application/pdf") {
      return wrong_field(inner + ".media_type", "must be application/pdf");
    }
    AFI_TRY(const std::string_view data, text_field(source["data"], inner + ".data"));
    content.add_pdf(data);
    return {};
  }
  return untranslatable(inner,
                        "a chat completion takes documents as text, base64 or an uploaded file, "
                        "not of the type '" +
                            std::string(type.empty() ? "?" : type) + "'");
}

/// A block of text or media, of a user or in a tool's result.
Result<void> add_block(const JsonValue& block, const std::string& place,
                       const MessageContext& context, ChatContent& content) {
  const std::string_view type = block["type"].text();
  if (type == "text") return add_text_block(block, place, context, content);
  if (type == "image") return add_image_block(block, place, context, content);
  if (type == "document") return add_document(block, place, context, content);
  if (type == "tool_reference") {
    // No template has a form for it: the model reads what the client sent.
    AFI_TRY_VOID(check_members(block, place, {"type", "tool_name", "cache_control"}));
    AFI_TRY(const std::string_view tool, text_field(block["tool_name"], place + ".tool_name"));
    content.add_text(
        JsonObject().add_text("type", "tool_reference").add_text("tool_name", tool).text());
    return {};
  }
  if (!block["type"].is(JsonKind::kString)) return wrong_field(place + ".type", "must be a string");
  return untranslatable(
      place, "a chat completion has no content of the type '" + std::string(type) + "' here");
}

Result<void> add_tool_result(const JsonValue& block, const std::string& place,
                             const MessageContext& context, ChatMessages& messages) {
  AFI_TRY_VOID(
      check_members(block, place, {"type", "tool_use_id", "content", "is_error", "cache_control"}));
  AFI_TRY(const std::string_view id, text_field(block["tool_use_id"], place + ".tool_use_id"));
  AFI_TRY(const bool is_error, flag_field(block["is_error"], place + ".is_error"));
  ChatContent content;
  // A chat's tool message has no such flag, so the model reads it.
  if (is_error) content.add_text("Error:");
  const JsonValue said = block["content"];
  if (said.is(JsonKind::kString)) {
    content.add_text(said.text());
  } else if (said.is(JsonKind::kArray)) {
    std::size_t index = 0;
    for (const JsonValue part : said) {
      AFI_TRY_VOID(add_block(part, element(place + ".content", index++), context, content));
    }
  } else if (!said.is_none()) {
    return wrong_field(place + ".content", "must be a string or a list of blocks");
  }
  if (content.is_empty()) content.add_text("");
  messages.add(JsonObject()
                   .add_text("role", "tool")
                   .add_text("tool_call_id", id)
                   .add("content", content.json())
                   .text());
  return {};
}

Result<void> add_user(const JsonValue& blocks, const std::string& place,
                      const MessageContext& context, ChatMessages& messages) {
  ChatContent content;
  std::size_t index = 0;
  for (const JsonValue block : blocks) {
    const std::string inner = element(place + ".content", index++);
    if (block["type"].text() != "tool_result") {
      AFI_TRY_VOID(add_block(block, inner, context, content));
      continue;
    }
    if (!content.is_empty()) {
      return wrong_field(inner, "must come before the message's other content, as tool results do");
    }
    AFI_TRY_VOID(add_tool_result(block, inner, context, messages));
  }
  messages.add_user(std::move(content));
  return {};
}

/// What the blocks of an assistant's message add up to.
struct AssistantMessage {
  ChatContent content;
  std::string reasoning;
  JsonArray calls;
};

Result<void> add_assistant_block(const JsonValue& block, const std::string& place,
                                 const MessageContext& context, AssistantMessage& message) {
  const std::string_view type = block["type"].text();
  if (type == "text") return add_text_block(block, place, context, message.content);
  if (type == "redacted_thinking") {
    // Only the server that encrypted it can read it.
    context.ignored.push_back(place);
    return {};
  }
  if (type == "thinking") {
    AFI_TRY_VOID(check_members(block, place, {"type", "thinking", "signature", "cache_control"}));
    AFI_TRY(const std::string_view text, text_field(block["thinking"], place + ".thinking"));
    message.reasoning += text;
    return {};
  }
  if (type == "tool_use") {
    AFI_TRY_VOID(
        check_members(block, place, {"type", "id", "name", "input", "cache_control", "caller"}));
    AFI_TRY(const std::string_view id, text_field(block["id"], place + ".id"));
    AFI_TRY(const std::string_view name, text_field(block["name"], place + ".name"));
    if (!block["input"].is(JsonKind::kObject)) {
      return wrong_field(place + ".input", "must be an object");
    }
    const std::string function =
        JsonObject().add_text("name", name).add_text("arguments", canonical(block["input"])).text();
    message.calls.add(JsonObject()
                          .add_text("id", id)
                          .add_text("type", "function")
                          .add("function", function)
                          .text());
    return {};
  }
  if (!block["type"].is(JsonKind::kString)) return wrong_field(place + ".type", "must be a string");
  return untranslatable(place, "a chat completion has no content of the type '" +
                                   std::string(type) + "' of an assistant");
}

Result<void> add_assistant(const JsonValue& blocks, const std::string& place,
                           const MessageContext& context, ChatMessages& messages) {
  AssistantMessage read;
  std::size_t index = 0;
  for (const JsonValue block : blocks) {
    AFI_TRY_VOID(add_assistant_block(block, element(place + ".content", index++), context, read));
  }
  JsonObject message;
  message.add_text("role", "assistant").add("content", read.content.json());
  if (!read.reasoning.empty()) message.add_text("reasoning_content", read.reasoning);
  if (!read.calls.is_empty()) message.add("tool_calls", read.calls.text());
  messages.add(message.text());
  return {};
}

/// The texts of `content`, a string or a list of text blocks, but for volatile lines.
Result<std::vector<std::string_view>> read_instructions(const JsonValue& content,
                                                        const std::string& place,
                                                        const MessageContext& context) {
  std::vector<std::string_view> texts;
  const auto add = [&](std::string_view text, const std::string& where) {
    const std::string_view rest = context.keeps_billing_lines ? text : without_volatile_line(text);
    if (rest.size() != text.size()) {
      context.ignored.push_back(where);
      ++context.billing_lines;
    }
    if (rest.size() == text.size() || !rest.empty()) texts.push_back(rest);
  };
  if (content.is(JsonKind::kString)) {
    add(content.text(), place);
    return texts;
  }
  if (!content.is(JsonKind::kArray)) {
    return wrong_field(place, "must be a string or a list of text blocks");
  }
  std::size_t index = 0;
  for (const JsonValue block : content) {
    const std::string inner = element(place, index++);
    if (block["type"].text() != "text") return wrong_field(inner, "must be a text block");
    AFI_TRY(const std::string_view text, text_of_block(block, inner, context));
    add(text, inner);
  }
  return texts;
}

/// Instructions within a conversation, as a user's text: many templates take a system message at the
/// beginning only, and there it would make everything after it new. The tags are those that coding
/// agents put around such texts themselves.
Result<void> add_late_instructions(const JsonValue& content, const std::string& place,
                                   const MessageContext& context, ChatMessages& messages) {
  AFI_TRY(const auto texts, read_instructions(content, place, context));
  for (const std::string_view text : texts) {
    messages.add_to_user("<system-reminder>\n" + std::string(text) + "\n</system-reminder>");
  }
  return {};
}

}  // namespace

void ChatMessages::add(std::string_view message) {
  close_user();
  messages_.add(message);
}

void ChatMessages::add_user(ChatContent content) {
  close_user();
  user_ = std::move(content);
}

void ChatMessages::add_to_user(std::string_view text) { user_.add_text(text); }

std::string ChatMessages::text() {
  close_user();
  return messages_.text();
}

void ChatMessages::close_user() {
  if (!user_.is_empty()) messages_.add(message_of("user", std::exchange(user_, {})));
}

Result<void> add_system(const JsonValue& system, const MessageContext& context,
                        ChatMessages& messages) {
  if (system.is_none()) return {};
  AFI_TRY(const auto texts, read_instructions(system, "system", context));
  ChatContent content;
  for (const std::string_view text : texts) content.add_text(text);
  if (!content.is_empty()) messages.add(message_of("system", content));
  return {};
}

Result<void> add_message(const JsonValue& message, const std::string& place,
                         const MessageContext& context, ChatMessages& messages) {
  AFI_TRY_VOID(check_members(message, place, {"role", "content"}));
  AFI_TRY(const std::string_view role, text_field(message["role"], place + ".role"));
  const JsonValue content = message["content"];
  if (role == "system" || role == "developer") {
    return add_late_instructions(content, place + ".content", context, messages);
  }
  if (role != "user" && role != "assistant") {
    return wrong_field(place + ".role", "must be user, assistant or system");
  }
  if (content.is(JsonKind::kString)) {
    ChatContent text;
    text.add_text(content.text());
    if (role == "user") {
      messages.add_user(std::move(text));
    } else {
      messages.add(message_of(role, text));
    }
    return {};
  }
  if (!content.is(JsonKind::kArray)) {
    return wrong_field(place + ".content", "must be a string or a list of blocks");
  }
  if (content.is_empty()) return wrong_field(place + ".content", "must not be empty");
  if (role == "user") return add_user(content, place, context, messages);
  return add_assistant(content, place, context, messages);
}

}  // namespace afterimage
