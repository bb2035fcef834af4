// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "foundation/json/json_text.h"
#include "foundation/json/json_writer.h"

namespace afterimage {

/// A tool as the client knows it. All are functions of a chat; a call of one becomes the client's item.
struct ResponsesTool {
  enum class Kind : unsigned char {
    kFunction,
    kCustom,  // takes a text, not an object
    kSearch,  // finds more tools, at the client
  };
  Kind kind = Kind::kFunction;
  std::string space;  // its namespace; empty: none
  std::string name;
};

/// Tools by their function's name in the chat.
using ResponsesTools = std::map<std::string, ResponsesTool, std::less<>>;

/// "files__read" for read in the namespace files: a chat's functions have no namespaces.
[[nodiscard]] std::string chat_tool_name(std::string_view space, std::string_view name);
/// The name in the chat of the function that searches for tools.
inline constexpr std::string_view kToolSearch = "tool_search";

/// The tools of a request, as functions of a chat.
class ChatTools {
 public:
  /// Places of tools and members that a chat cannot have are added to `ignored`, which outlives it.
  explicit ChatTools(std::vector<std::string>& ignored) : ignored_(ignored) {}

  /// A list of tools, at `place` in the request. A tool that is the same as an earlier one is not
  /// repeated; tools that run at OpenAI are left out.
  ///
  /// Errors   kInvalidArgument: not tools, or two of one name. kUnsupported: a tool of a form that no
  ///          function has. All name the field.
  Result<void> add_list(const JsonValue& tools, const std::string& place);

  [[nodiscard]] bool is_empty() const { return list_.is_empty(); }
  /// A JSON array of the chat's tools.
  [[nodiscard]] std::string json() const { return list_.text(); }
  [[nodiscard]] const ResponsesTools& tools() const { return tools_; }

 private:
  Result<void> add_tool(const JsonValue& tool, const std::string& place);
  Result<void> add_namespace(const JsonValue& tool, const std::string& place);
  Result<void> add_function(const JsonValue& tool, const std::string& place);
  Result<void> add_custom(const JsonValue& tool, const std::string& place);
  Result<void> add(ResponsesTool tool, const std::string& place, std::string_view description,
                   std::string_view parameters, const JsonValue& strict);

  std::vector<std::string>& ignored_;
  JsonArray list_;
  ResponsesTools tools_;
  std::map<std::string, std::string, std::less<>> written_;  // by name in the chat
  std::string_view space_;                                   // of the namespace that is being read
  std::string_view about_space_;  // its description, until the first of its tools has it
};

}  // namespace afterimage
