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

namespace afterimage {

/// What reading messages needs besides them.
struct MessageContext {
  const FileLookup& files;
  std::vector<std::string>& ignored;  // places of what was left out
  std::size_t& billing_lines;         // how many were left out
  bool keeps_billing_lines = false;
};

/// The messages of a chat. The last one of a user stays open for instructions that follow it.
class ChatMessages {
 public:
  /// A message that is complete.
  void add(std::string_view message);
  /// A user's message; without content there is none.
  void add_user(ChatContent content);
  /// A text for the model, within the user's message that is open or in one of its own.
  void add_to_user(std::string_view text);
  /// A JSON array.
  [[nodiscard]] std::string text();

 private:
  void close_user();

  JsonArray messages_;
  ChatContent user_;  // empty: none is open
};

/// Adds the chat's system message for `system`, a string or a list of text blocks; none: nothing. A
/// billing line is left out, unless the context keeps it.
///
/// Errors   As read_messages_request(), for this and the next.
Result<void> add_system(const JsonValue& system, const MessageContext& context,
                        ChatMessages& messages);

/// Adds the chat's messages for one message: a user's tool results are messages of their own.
Result<void> add_message(const JsonValue& message, const std::string& place,
                         const MessageContext& context, ChatMessages& messages);

}  // namespace afterimage
