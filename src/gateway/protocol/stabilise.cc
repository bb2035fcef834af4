// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/protocol/stabilise.h"

#include <algorithm>
#include <array>
#include <utility>

#include "foundation/json/json_text.h"
#include "foundation/json/json_writer.h"
#include "foundation/text/ascii.h"
#include "gateway/protocol/fields.h"

namespace afterimage {
namespace {

constexpr std::string_view kToolOrder = "tool-order";
constexpr std::string_view kSchemaKeys = "schema-keys";
constexpr std::string_view kDateLine = "date-line";
constexpr std::size_t kLongestDateLine = 200;

struct Edit {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string text;
};

/// `text`, which begins at `offset` of the body, with the edits, which are in order.
std::string edited(std::string_view text, std::size_t offset, std::span<const Edit> edits) {
  std::string made;
  std::size_t at = 0;
  for (const Edit& edit : edits) {
    made.append(text.substr(at, edit.begin - offset - at)).append(edit.text);
    at = edit.end - offset;
  }
  return made.append(text.substr(at));
}

/// The value with the members of its objects sorted by their names.
std::string with_sorted_keys(const JsonValue& value) {
  if (value.is(JsonKind::kArray)) {
    JsonArray array;
    for (const JsonValue element : value) array.add(with_sorted_keys(element));
    return array.text();
  }
  if (!value.is(JsonKind::kObject)) return std::string(value.source());
  std::vector<JsonValue> members;
  for (const JsonValue member : value) members.push_back(member);
  std::ranges::sort(members, {}, [](const JsonValue& member) { return member.key(); });
  JsonObject object;
  for (const JsonValue& member : members) object.add(member.key(), with_sorted_keys(member));
  return object.text();
}

bool has_sorted_keys(const JsonValue& value) {
  if (!value.is(JsonKind::kObject) && !value.is(JsonKind::kArray)) return true;
  std::string_view before;
  for (const JsonValue one : value) {
    if (value.is(JsonKind::kObject) && one.key() < before) return false;
    before = one.key();
    if (!has_sorted_keys(one)) return false;
  }
  return true;
}

/// What a line has between blanks and signs.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words(1);
  for (const char c : line) {
    if (ascii::is_letter(c) || ascii::is_digit(c) || ascii::is_beyond(c)) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

bool is_one_of(const std::string& word, const auto& names) {
  return std::ranges::find(names, word) != names.end();
}

bool is_number_of(const std::string& word, std::size_t least, std::size_t most) {
  return word.size() >= least && word.size() <= most && std::ranges::all_of(word, ascii::is_digit);
}

bool names_now(const std::vector<std::string>& words) {
  static constexpr auto kNow =
      std::to_array<std::string_view>({"today", "current", "currently", "now"});
  static constexpr auto kLabels =
      std::to_array<std::string_view>({"date", "time", "datetime", "timestamp"});
  return is_one_of(words.front(), kLabels) ||
         std::ranges::any_of(words, [](const std::string& word) { return is_one_of(word, kNow); });
}

/// 12:30
bool has_time(std::string_view line) {
  for (std::size_t i = line.find(':'); i != std::string_view::npos; i = line.find(':', i + 1)) {
    const bool is_one = i > 0 && i + 2 < line.size() && ascii::is_digit(line[i - 1]) &&
                        ascii::is_digit(line[i + 1]) && ascii::is_digit(line[i + 2]);
    if (is_one) return true;
  }
  return false;
}

/// 2026-11-29, 29.11.2026, 29 November, Sunday, or the seconds since 1970.
bool has_date(const std::vector<std::string>& words) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"january",   "february", "march",    "april",    "june",  "july", "august", "september",
       "october",   "november", "december", "jan",      "feb",   "mar",  "apr",    "jun",
       "jul",       "aug",      "sep",      "oct",      "nov",   "dec",  "monday", "tuesday",
       "wednesday", "thursday", "friday",   "saturday", "sunday"});
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (is_one_of(words[i], kNames) || is_number_of(words[i], 10, 13)) return true;
    // "29T12" is the last number of a date with a time.
    const bool has_three = i + 2 < words.size() && is_number_of(words[i + 1], 1, 2) &&
                           !words[i + 2].empty() && ascii::is_digit(words[i + 2].front());
    if (has_three && is_number_of(words[i], 4, 4)) return true;
    if (has_three && is_number_of(words[i], 1, 2) && is_number_of(words[i + 2], 4, 4)) return true;
  }
  return false;
}

/// The text without its date lines, which are appended to `moved`.
std::string without_date_lines(std::string_view text, std::string& moved) {
  std::string kept;
  bool is_last_moved = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::string_view whole = text.substr(0, std::min(end + 1, text.size()));
    text.remove_prefix(whole.size());
    is_last_moved = is_date_line(line);
    if (is_last_moved) {
      moved.append(moved.empty() ? "" : "\n").append(ascii::trimmed(line, " \t\r"));
    } else {
      kept.append(whole);
    }
  }
  if (is_last_moved && kept.ends_with('\n')) kept.pop_back();
  return kept;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

Edit replace(const JsonValue& value, std::string text) {
  return {.begin = value.begin_offset(), .end = value.end_offset(), .text = std::move(text)};
}

class Stabiliser {
 public:
  Stabiliser(std::string_view chat, const JsonValue& root, const Stabilising& may)
      : chat_(chat), root_(root), may_(may) {}

  std::optional<StabilisedChat> run() && {
    if (may_.tool_order || may_.schema_keys) stabilise_tools(root_["tools"]);
    if (may_.date_line) move_dates(root_["messages"]);
    if (edits_.empty()) return std::nullopt;
    std::ranges::sort(edits_, {}, &Edit::begin);
    return StabilisedChat{.body = edited(chat_, 0, edits_), .parts = std::move(parts_)};
  }

 private:
  void note(std::string_view change, std::string place) {
    parts_.push_back({.change = change, .place = std::move(place)});
  }

  void stabilise_tools(const JsonValue& tools) {
    struct Tool {
      std::string_view name;
      std::string text;
    };
    std::vector<Tool> list;
    std::vector<Edit> schemas;
    std::size_t index = 0;
    for (const JsonValue tool : tools) {
      const JsonValue schema = tool["function"]["parameters"];
      std::vector<Edit> its;
      if (may_.schema_keys && !has_sorted_keys(schema)) {
        its.push_back(replace(schema, with_sorted_keys(schema)));
        note(kSchemaKeys, element("tools", index) + ".function.parameters");
      }
      ++index;
      list.push_back({.name = tool["function"]["name"].text(),
                      .text = edited(tool.source(), tool.begin_offset(), its)});
      schemas.insert(schemas.end(), its.begin(), its.end());
    }
    if (!may_.tool_order || std::ranges::is_sorted(list, {}, &Tool::name)) {
      edits_.insert(edits_.end(), schemas.begin(), schemas.end());
      return;
    }
    std::ranges::stable_sort(list, {}, &Tool::name);
    JsonArray sorted;
    for (const Tool& tool : list) sorted.add(tool.text);
    edits_.push_back(replace(tools, sorted.text()));
    note(kToolOrder, "tools");
  }

  void move_dates(const JsonValue& list) {
    std::vector<JsonValue> messages;
    for (const JsonValue message : list) messages.push_back(message);
    const auto found = std::find_if(messages.rbegin(), messages.rend(), [](const auto& message) {
      return message["role"].text() == "user" && can_take_text(message["content"]);
    });
    if (found == messages.rend()) return;
    const auto last = found.base() - 1;
    std::string moved;
    std::vector<std::string> texts;
    for (auto it = messages.begin(); it != last; ++it) {
      texts.push_back(without_dates(*it, element("messages", texts.size()), moved));
    }
    if (moved.empty()) return;
    texts.push_back(with_text(*last, moved));
    for (auto it = last + 1; it != messages.end(); ++it) {
      texts.emplace_back(it->source());
    }
    JsonArray made;
    for (const std::string& text : texts) {
      if (!text.empty()) made.add(text);
    }
    edits_.push_back(replace(list, made.text()));
  }

  static bool can_take_text(const JsonValue& content) {
    return content.is(JsonKind::kString) || content.is(JsonKind::kArray);
  }

  /// The message with the text at its end.
  static std::string with_text(const JsonValue& message, std::string_view text) {
    const JsonValue content = message["content"];
    std::string made;
    if (content.is(JsonKind::kString)) {
      made = json_string(std::string(content.text()).append("\n\n").append(text));
    } else {
      JsonArray parts;
      for (const JsonValue part : content) parts.add(part.source());
      parts.add(JsonObject().add_text("type", "text").add_text("text", text).text());
      made = parts.text();
    }
    const std::array edits{replace(content, std::move(made))};
    return edited(message.source(), message.begin_offset(), edits);
  }

  /// The message without date lines; empty: it had nothing else.
  std::string without_dates(const JsonValue& message, const std::string& place,
                            std::string& moved) {
    const std::string_view role = message["role"].text();
    const JsonValue content = message["content"];
    if (role != "system" && role != "developer") return std::string(message.source());
    if (content.is(JsonKind::kString)) {
      return without_dates_of(message, content, place, moved)
          .value_or(std::string(message.source()));
    }
    JsonArray parts;
    bool is_changed = false;
    std::size_t index = 0;
    for (const JsonValue part : content) {
      const auto made =
          without_dates_of(part, part["text"], element(place + ".content", index++), moved);
      is_changed = is_changed || made.has_value();
      const std::string_view kept = made.has_value() ? std::string_view(*made) : part.source();
      if (!kept.empty()) parts.add(kept);
    }
    if (!is_changed) return std::string(message.source());
    if (parts.is_empty()) return {};
    const std::array edits{replace(content, parts.text())};
    return edited(message.source(), message.begin_offset(), edits);
  }

  /// `holder` with the rest of its text; empty: there is none. nullopt: it has no date line.
  std::optional<std::string> without_dates_of(const JsonValue& holder, const JsonValue& text,
                                              const std::string& place, std::string& moved) {
    if (!text.is(JsonKind::kString)) return std::nullopt;
    const std::string rest = without_date_lines(text.text(), moved);
    if (rest.size() == text.text().size()) return std::nullopt;
    note(kDateLine, place);
    if (is_blank(rest)) return "";
    const std::array edits{replace(text, json_string(rest))};
    return edited(holder.source(), holder.begin_offset(), edits);
  }

  std::string_view chat_;
  JsonValue root_;
  Stabilising may_;
  std::vector<Edit> edits_;
  std::vector<StabilisedPart> parts_;
};

}  // namespace

Stabilising stabilising_of(std::span<const std::string> names) {
  const auto has = [&](std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  return {.billing_lines = has("billing-lines"),
          .tool_order = has(kToolOrder),
          .schema_keys = has(kSchemaKeys),
          .date_line = has(kDateLine)};
}

bool is_date_line(std::string_view line) {
  if (line.size() > kLongestDateLine) return false;
  const std::vector<std::string> words = words_of(ascii::lowered(line));
  return !words.empty() && names_now(words) && (has_time(line) || has_date(words));
}

std::optional<StabilisedChat> stabilised(std::string_view chat, const Stabilising& may) {
  if (!may.changes_chats()) return std::nullopt;
  JsonReader json;
  const auto root = json.read(chat);
  if (!root.has_value()) return std::nullopt;  // read_api_request() reports it
  return Stabiliser(chat, *root, may).run();
}

}  // namespace afterimage
