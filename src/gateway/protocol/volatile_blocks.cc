// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/protocol/volatile_blocks.h"

#include <algorithm>
#include <array>
#include <utility>

#include "foundation/json/json_text.h"
#include "foundation/json/json_writer.h"
#include "gateway/protocol/fields.h"

namespace afterimage {
namespace {

/// The beginnings of such lines. Claude Code writes this one.
constexpr auto kVolatileLines = std::to_array<std::string_view>({"x-anthropic-billing-header:"});

/// By what follows the first hyphen: texts have few of them and base64 has none, so that megabytes are passed
/// over fast.
bool may_have_one(std::string_view chat) {
  return std::ranges::any_of(kVolatileLines, [&](std::string_view line) {
    return chat.contains(line.substr(line.find('-')));
  });
}

/// `value` with `text` in the place of its member or element `old`.
std::string with_text(const JsonValue& value, const JsonValue& old, std::string_view text) {
  const std::string_view source = value.source();
  const std::size_t begin = old.begin_offset() - value.begin_offset();
  std::string made(source.substr(0, begin));
  append_json_string(made, text);
  return made.append(source.substr(old.end_offset() - value.begin_offset()));
}

class Cleaning {
 public:
  explicit Cleaning(std::vector<std::string>& left_out) : left_out_(left_out) {}

  /// The message as it is to be sent; empty: it had nothing but such a line.
  std::string message(const JsonValue& message, const std::string& place) {
    const std::string_view role = message["role"].text();
    const JsonValue content = message["content"];
    if (role != "system" && role != "developer") return std::string(message.source());
    if (content.is(JsonKind::kString)) return text_of(message, content, place + ".content");
    JsonArray parts;
    std::size_t index = 0;
    bool is_changed = false;
    for (const JsonValue part : content) {
      const std::string name = element(place + ".content", index++);
      const JsonValue text = part["text"];
      std::string kept =
          text.is(JsonKind::kString) ? text_of(part, text, name) : std::string(part.source());
      is_changed = is_changed || kept.size() != part.source().size();
      if (!kept.empty()) parts.add(kept);
    }
    if (!is_changed) return std::string(message.source());
    if (parts.is_empty()) return {};
    const std::string_view source = message.source();
    return std::string(source.substr(0, content.begin_offset() - message.begin_offset())) +
           parts.text() + std::string(source.substr(content.end_offset() - message.begin_offset()));
  }

 private:
  /// `holder` with the rest of its text, or nothing if there is no rest.
  std::string text_of(const JsonValue& holder, const JsonValue& text, const std::string& place) {
    const std::string_view rest = without_volatile_line(text.text());
    if (rest.size() == text.text().size()) return std::string(holder.source());
    left_out_.push_back(place);
    return rest.empty() ? std::string() : with_text(holder, text, rest);
  }

  std::vector<std::string>& left_out_;
};

}  // namespace

std::string_view without_volatile_line(std::string_view text) {
  const bool has_one = std::ranges::any_of(
      kVolatileLines, [&](std::string_view line) { return text.starts_with(line); });
  if (!has_one) return text;
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return {};
  const std::size_t rest = text.find_first_not_of('\n', end);
  return rest == std::string_view::npos ? std::string_view() : text.substr(rest);
}

std::optional<ChatWithout> without_volatile_lines(std::string_view chat) {
  if (!may_have_one(chat)) return std::nullopt;
  JsonReader json;
  const auto root = json.read(chat);
  if (!root.has_value()) return std::nullopt;  // read_api_request() reports it
  const JsonValue list = (*root)["messages"];
  ChatWithout made;
  Cleaning cleaning(made.left_out);
  JsonArray messages;
  std::size_t index = 0;
  for (const JsonValue message : list) {
    const std::string kept = cleaning.message(message, element("messages", index++));
    if (!kept.empty()) messages.add(kept);
  }
  if (made.left_out.empty()) return std::nullopt;
  made.body.append(chat.substr(0, list.begin_offset()))
      .append(messages.text())
      .append(chat.substr(list.end_offset()));
  return made;
}

}  // namespace afterimage
