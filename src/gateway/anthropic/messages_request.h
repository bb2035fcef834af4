// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "gateway/protocol/chat_content.h"

namespace afterimage {

/// A request of POST /v1/messages as a chat completion.
struct MessagesRequest {
  std::string chat;  // the body
  std::string model;
  bool stream = false;
  bool shows_reasoning = false;               // thinking is not off
  bool only_prefills = false;                 // max_tokens is 0: nobody reads what is generated
  std::vector<std::string> stops;             // stop_sequences
  std::optional<std::string> diagnosed_with;  // diagnostics.previous_message_id, or "" for null
  std::vector<std::string> ignored;           // what was left out of the chat: "betas", "tools[3]"
  std::size_t billing_lines = 0;              // of them
};

enum class MessagesUse : unsigned char { kAnswer, kCount };

/// Translates the body of POST /v1/messages, or of its count_tokens.
///
/// Markers of cache_control are ignored: the cache finds entries by content. What has no influence on
/// what the model says, or runs at Anthropic, is left out, and named in `ignored`.
///
/// Errors   kInvalidArgument: not such a request. kUnsupported: a chat completion cannot ask this.
///          kNotFound: no such file. All name the field.
/// Threads  Any.
/// Source   docs/protocols.md lists every field.
[[nodiscard]] Result<MessagesRequest> read_messages_request(std::string_view body,
                                                            const FileLookup& files,
                                                            MessagesUse use = MessagesUse::kAnswer,
                                                            bool keeps_billing_lines = false);

}  // namespace afterimage
