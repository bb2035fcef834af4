// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "foundation/json/json_text.h"
#include "foundation/json/json_writer.h"
#include "gateway/protocol/chat_content.h"
#include "gateway/responses/chat_tools.h"

namespace afterimage {

/// Input items become messages of a chat: what an assistant said and the functions that it called are one
/// message, as a chat has them.
///
/// Errors   As read_responses_request().
/// Threads  One at a time.
class InputItems {
 public:
  /// `goes_on`: there is a conversation before these items, so that none of them is the first.
  /// Tools that items bring are added to `tools`, places of what is left out to `ignored`; all outlive
  /// it.
  InputItems(const FileLookup& files, std::string_view id, bool goes_on, ChatTools& tools,
             std::vector<std::string>& ignored, bool keeps_billing_lines = false)
      : files_(files),
        id_(id),
        goes_on_(goes_on),
        tools_(tools),
        ignored_(ignored),
        keeps_billing_lines_(keeps_billing_lines) {}

  /// `input`: a string, or a list of items.
  Result<void> read(const JsonValue& input);
  /// "{…},{…}"
  [[nodiscard]] const std::string& messages() const { return messages_; }
  /// What the items before all others instruct: it belongs into the chat's system message.
  [[nodiscard]] const std::string& instructions() const { return instructions_; }
  /// How many were left out.
  [[nodiscard]] std::size_t billing_lines() const { return billing_lines_; }
  /// A JSON array; every item has an id.
  [[nodiscard]] std::string items() const { return items_.text(); }

 private:
  Result<void> add_item(const JsonValue& item, const std::string& place);
  Result<void> add_message(const JsonValue& item, const std::string& place);
  Result<void> add_call(const JsonValue& item, const std::string& place);
  Result<void> add_custom_call(const JsonValue& item, const std::string& place);
  Result<void> add_search_call(const JsonValue& item, const std::string& place);
  Result<void> add_search_output(const JsonValue& item, const std::string& place);
  Result<void> add_tools(const JsonValue& item, const std::string& place);
  Result<void> add_agent_message(const JsonValue& item, const std::string& place);
  Result<void> add_call_output(const JsonValue& item, const std::string& place);
  Result<void> add_reasoning(const JsonValue& item, const std::string& place);
  Result<void> add_parts(const JsonValue& parts, const std::string& place, ChatContent& content);
  Result<void> add_part(const JsonValue& part, const std::string& place, ChatContent& content);
  Result<void> add_image(const JsonValue& part, const std::string& place, ChatContent& content);
  Result<void> add_file(const JsonValue& part, const std::string& place, ChatContent& content);
  Result<UploadedFile> file_of(const JsonValue& id, const std::string& place) const;
  void add_instructions(const std::string& text);
  void add(std::string_view message);
  void add_call(std::string_view id, std::string_view name, std::string_view arguments);
  void add_output(std::string_view id, const ChatContent& content);
  /// Ends the assistant's message.
  void end_assistant();
  void keep_item(const JsonValue& item, std::string_view prefix);

  /// What an assistant said since the last other item.
  struct Assistant {
    bool is_there = false;
    ChatContent content;
    std::string refusal;
    std::string reasoning;
    JsonArray calls;
  };

  const FileLookup& files_;
  std::string id_;
  bool goes_on_;
  ChatTools& tools_;
  std::vector<std::string>& ignored_;
  bool keeps_billing_lines_;
  std::size_t billing_lines_ = 0;
  std::string instructions_;
  std::string messages_;
  JsonArray items_;
  std::size_t count_ = 0;
  Assistant assistant_;
};

/// An assistant's message of a chat. `calls` is a list of tool calls; empty texts are left out.
[[nodiscard]] std::string assistant_message(std::string_view content, std::string_view refusal,
                                            std::string_view reasoning, const JsonArray& calls);
/// A function call as a chat has it.
[[nodiscard]] std::string chat_call(std::string_view id, std::string_view name,
                                    std::string_view arguments);

}  // namespace afterimage
