// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/prompt_parts.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

namespace afterimage {
namespace {

/// Those that have a name in the body first, by their pointer in Scope::other.
constexpr auto kFields = std::to_array<std::string_view>(
    {"chat_template", "chat_template_kwargs", "documents", "cache_salt", "add_generation_prompt",
     "continue_final_message", "mm_processor_kwargs", "reasoning_effort", "tool_choice",
     "function_call", "parallel_tool_calls"});
constexpr std::size_t kOfBody = 8;  // the rest stand with the tools
constexpr auto kPrompts = std::to_array<std::string_view>({"prompt", "input"});
constexpr std::string_view kOfMessages = "/messages/";

/// The values of an object or array of canonical JSON, as they are written.
class Members {
 public:
  explicit Members(std::string_view json) : rest_(json.substr(json.empty() ? 0 : 1)) {}

  /// False: there are no more. `key`: with its quotes; empty in an array.
  bool next(std::string_view& key, std::string_view& value) {
    if (rest_.starts_with(',')) rest_.remove_prefix(1);
    if (rest_.empty() || rest_.front() == '}' || rest_.front() == ']') return false;
    key = {};
    value = take();
    if (!rest_.starts_with(':')) return true;
    rest_.remove_prefix(1);
    key = value;
    value = take();
    return true;
  }

 private:
  std::string_view take() {
    const std::string_view value = rest_.substr(0, end_of_value());
    rest_.remove_prefix(value.size());
    return value;
  }
  [[nodiscard]] std::size_t end_of_value() const {
    std::size_t depth = 0;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      const char c = rest_[i];
      if (c == '"') {
        i = end_of_string(i);
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']') {
        if (depth == 0) return i;
        --depth;
      } else if (depth == 0 && (c == ',' || c == ':')) {
        return i;
      }
      if (depth == 0 && (c == '"' || c == '}' || c == ']')) return i + 1;
    }
    return rest_.size();
  }
  /// The position of the closing quote.
  [[nodiscard]] std::size_t end_of_string(std::size_t begin) const {
    std::size_t i = rest_.find_first_of("\"\\", begin + 1);
    while (i != std::string_view::npos && rest_[i] == '\\') {
      i = rest_.find_first_of("\"\\", i + 2);
    }
    return std::min(i, rest_.size());
  }

  std::string_view rest_;
};

class Pieces {
 public:
  explicit Pieces(const ApiRequest& request) : request_(request) {}

  std::vector<PartPiece> run() && {
    pieces_.reserve(2 + 3 * request_.scope.messages.size());
    add(PartPiece::Kind::kName, {.kind = PartKind::kModel}, request_.model);
    find_fields();
    for (std::uint32_t i = 0; i < kOfBody; ++i) {
      if (fields_.at(i) != nullptr) add_parameter(i, *fields_.at(i));
    }
    for (std::size_t i = 0; i < kPrompts.size(); ++i) add_prompt(i);
    add_tools();
    for (std::size_t i = 0; i < request_.scope.messages.size(); ++i) add_message(i);
    return std::move(pieces_);
  }

 private:
  using Kind = PartPiece::Kind;

  void add(Kind kind, PartPlace part, std::string_view text) {
    pieces_.push_back({.kind = kind, .part = part, .text = text});
  }
  /// Most requests have few fields, and none of these: one look at each.
  void find_fields() {
    for (const auto& [pointer, value] : request_.scope.other) {
      if (!pointer.starts_with('/')) continue;
      const std::string_view name = std::string_view(pointer).substr(1);
      if (pointer.starts_with(kOfMessages)) {
        has_fields_of_messages_ = true;
      } else if (const auto* field = std::ranges::find(kFields, name);
                 field < kFields.begin() + kOfBody) {
        fields_.at(static_cast<std::size_t>(field - kFields.begin())) = &value;
      } else if (const auto* prompt = std::ranges::find(kPrompts, name); prompt != kPrompts.end()) {
        prompts_.at(static_cast<std::size_t>(prompt - kPrompts.begin())) = &value;
      }
    }
  }
  [[nodiscard]] const std::string* fields_of_message(std::size_t index) const {
    if (!has_fields_of_messages_) return nullptr;
    const auto found = request_.scope.other.find(std::string(kOfMessages) + std::to_string(index));
    return found == request_.scope.other.end() ? nullptr : &found->second;
  }
  void add_parameter(std::uint32_t index, std::string_view value) {
    const PartPlace part{.kind = PartKind::kParameters, .index = index};
    add(Kind::kName, part, kFields[index]);
    add(Kind::kText, part, value);
  }
  void add_prompt(std::size_t index) {
    if (prompts_.at(index) == nullptr) return;
    add(Kind::kName, {.kind = PartKind::kPrompt}, kPrompts.at(index));
    add(Kind::kText, {.kind = PartKind::kPrompt}, *prompts_.at(index));
  }

  /// Servers leave the tools out where none is to be called.
  void add_tools() {
    Members all(request_.scope.tools);
    std::string_view name;
    std::string_view value;
    std::vector<std::string_view> lists;
    bool is_none = false;
    while (all.next(name, value)) {
      const bool is_choice = name == R"("tool_choice")" || name == R"("function_call")";
      if (name == R"("tools")" || name == R"("functions")") {
        lists.push_back(value);
      } else if (!is_choice || value == R"("none")") {
        const auto* const field = std::ranges::find(kFields, name.substr(1, name.size() - 2));
        if (field != kFields.end()) {
          add_parameter(static_cast<std::uint32_t>(field - kFields.begin()), value);
        }
        is_none = is_none || is_choice;
      }
    }
    if (is_none) return;
    std::uint32_t index = 0;
    for (const std::string_view list : lists) {
      for (Members tools(list); tools.next(name, value); ++index) {
        add(Kind::kText, {.kind = PartKind::kTools, .index = index}, value);
      }
    }
  }

  [[nodiscard]] PartPlace place_of(const ScopeMessage& message, std::size_t index) {
    if (request_.operation != ApiOperation::kChat) return {.kind = PartKind::kPrompt};
    starts_ = starts_ && message.role == Role::kSystem;
    return {.kind = starts_ ? PartKind::kSystem : PartKind::kMessages,
            .index = static_cast<std::uint32_t>(index)};
  }
  void add_message(std::size_t index) {
    const ScopeMessage& message = request_.scope.messages[index];
    const PartPlace part = place_of(message, index);
    add(Kind::kName, part, to_string(message.role));
    const auto* const rest = fields_of_message(index);
    if (rest != nullptr) add(Kind::kFields, part, *rest);
    for (const auto& one : message.parts) {
      if (const auto* text = std::get_if<std::string>(&one)) {
        add(Kind::kText, part, *text);
      } else if (std::holds_alternative<QuestionSlot>(one)) {
        add(Kind::kText, part, request_.question);
      } else if (media_ < request_.media.size()) {
        add_media();
      }
    }
  }
  void add_media() {
    const PartPlace part{.kind = PartKind::kMedia, .index = static_cast<std::uint32_t>(media_)};
    pieces_.push_back({.kind = Kind::kMedia, .part = part, .media = &request_.media[media_++]});
  }

  const ApiRequest& request_;
  // Of Scope::other; nullptr: it has none.
  std::array<const std::string*, kOfBody> fields_{};
  std::array<const std::string*, kPrompts.size()> prompts_{};
  bool has_fields_of_messages_ = false;
  bool starts_ = true;  // only system messages so far
  std::size_t media_ = 0;
  std::vector<PartPiece> pieces_;
};

}  // namespace

std::string_view to_string(PartKind kind) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"model", "parameters", "tools", "system", "messages", "prompt", "media"});
  static_assert(kNames.size() == kPartKinds);
  return kNames[static_cast<std::size_t>(kind)];
}

std::string to_string(const PartPlace& place) {
  std::string text(to_string(place.kind));
  switch (place.kind) {
    case PartKind::kModel:
    case PartKind::kPrompt:
      return text;
    case PartKind::kParameters:
      return text + "." + std::string(kFields.at(place.index));
    case PartKind::kSystem:
      if (place.index == 0) return text;
      break;
    case PartKind::kTools:
    case PartKind::kMessages:
    case PartKind::kMedia:
      break;
  }
  return text + "[" + std::to_string(place.index) + "]";
}

std::span<const std::string_view> prompt_fields() { return kFields; }

std::vector<PartPiece> prompt_pieces(const ApiRequest& request) { return Pieces(request).run(); }

}  // namespace afterimage
