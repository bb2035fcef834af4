// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/responses/chat_tools.h"

#include <algorithm>
#include <array>
#include <utility>

#include "gateway/protocol/fields.h"

namespace afterimage {
namespace {

/// Tools that OpenAI's servers run; a chat completion's server cannot.
constexpr auto kServerTools =
    std::to_array<std::string_view>({"web_search", "web_search_preview", "web_search_2025_08_26",
                                     "file_search", "image_generation", "code_interpreter", "mcp"});

std::string with_more(std::string_view text, std::string_view more) {
  std::string all(text);
  if (!all.empty() && !more.empty()) all += "\n\n";
  return all.append(more);
}

/// The schema of a tool that takes a text. What the text has to look like can be told, not enforced.
std::string text_schema(const JsonValue& format) {
  JsonObject input;
  input.add_text("type", "string");
  const JsonValue definition = format["definition"];
  if (!definition.is_none()) {
    input.add_text("description", "A text of this " + std::string(format["syntax"].text()) +
                                      " grammar:\n" + std::string(definition.text()));
  }
  return JsonObject()
      .add_text("type", "object")
      .add("properties", JsonObject().add("input", input.text()).text())
      .add("required", R"(["input"])")
      .text();
}

}  // namespace

std::string chat_tool_name(std::string_view space, std::string_view name) {
  if (space.empty()) return std::string(name);
  return std::string(space) + (space.ends_with("__") ? "" : "__") + std::string(name);
}

Result<void> ChatTools::add_list(const JsonValue& tools, const std::string& place) {
  if (tools.is_none()) return {};
  if (!tools.is(JsonKind::kArray)) return wrong_field(place, "must be a list of tools");
  std::size_t index = 0;
  for (const JsonValue tool : tools) AFI_TRY_VOID(add_tool(tool, element(place, index++)));
  return {};
}

Result<void> ChatTools::add_tool(const JsonValue& tool, const std::string& place) {
  const std::string_view type = tool["type"].text();
  if (type == "function") return add_function(tool, place);
  if (type == "custom") return add_custom(tool, place);
  if (type == "namespace" && space_.empty()) return add_namespace(tool, place);
  if (type == kToolSearch && tool["parameters"].is(JsonKind::kObject)) {
    return add(
        {.kind = ResponsesTool::Kind::kSearch, .space = {}, .name = std::string(kToolSearch)},
        place, tool["description"].text(), canonical(tool["parameters"]), {});
  }
  // Without a schema of its own OpenAI's servers search.
  if (type == kToolSearch || std::ranges::find(kServerTools, type) != kServerTools.end()) {
    ignored_.push_back(place);
    return {};
  }
  return untranslatable(place + ".type", "the tool '" + std::string(type) +
                                             "' has a form of its own; functions, custom tools and "
                                             "namespaces of them are offered");
}

Result<void> ChatTools::add_namespace(const JsonValue& tool, const std::string& place) {
  AFI_TRY_VOID(check_members(tool, place, {"type", "name", "description", "tools"}));
  AFI_TRY(space_, text_field(tool["name"], place + ".name"));
  if (space_.empty()) return wrong_field(place + ".name", "must be a non-empty string");
  about_space_ = tool["description"].text();
  const auto added = add_list(tool["tools"], place + ".tools");
  space_ = {};
  about_space_ = {};
  return added;
}

Result<void> ChatTools::add_function(const JsonValue& tool, const std::string& place) {
  AFI_TRY_VOID(check_members(
      tool, place, {"type", "name", "description", "parameters", "strict", "defer_loading"}));
  if (!tool["defer_loading"].is_none()) ignored_.push_back(place + ".defer_loading");
  AFI_TRY(const std::string_view name, text_field(tool["name"], place + ".name"));
  const JsonValue parameters = tool["parameters"];
  return add({.kind = ResponsesTool::Kind::kFunction,
              .space = std::string(space_),
              .name = std::string(name)},
             place, tool["description"].text(), parameters.is_none() ? "" : canonical(parameters),
             tool["strict"]);
}

Result<void> ChatTools::add_custom(const JsonValue& tool, const std::string& place) {
  AFI_TRY_VOID(
      check_members(tool, place, {"type", "name", "description", "format", "defer_loading"}));
  AFI_TRY(const std::string_view name, text_field(tool["name"], place + ".name"));
  for (const std::string_view member : {"format", "defer_loading"}) {
    const bool is_said = tool[member].is_none() || tool[member]["type"].text() == "text";
    if (!is_said) ignored_.push_back(place + "." + std::string(member));
  }
  return add({.kind = ResponsesTool::Kind::kCustom,
              .space = std::string(space_),
              .name = std::string(name)},
             place, tool["description"].text(), text_schema(tool["format"]), {});
}

Result<void> ChatTools::add(ResponsesTool tool, const std::string& place,
                            std::string_view description, std::string_view parameters,
                            const JsonValue& strict) {
  const std::string name = chat_tool_name(tool.space, tool.name);
  const std::string about = with_more(description, std::exchange(about_space_, {}));
  JsonObject function;
  function.add_text("name", name);
  if (!about.empty()) function.add_text("description", about);
  if (!parameters.empty()) function.add("parameters", parameters);
  if (!strict.is_none()) function.add_value("strict", strict);
  const std::string written =
      JsonObject().add_text("type", "function").add("function", function.text()).text();
  const auto [found, is_new] = written_.try_emplace(name, written);
  if (!is_new && found->second == written) return {};
  if (!is_new) return wrong_field(place + ".name", "is '" + name + "', as another tool's is");
  list_.add(written);
  tools_.emplace(name, std::move(tool));
  return {};
}

}  // namespace afterimage
