// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "gateway/protocol/chat_content.h"
#include "gateway/responses/chat_tools.h"
#include "gateway/responses/response_store.h"

namespace afterimage {

/// A request of POST /v1/responses as a chat completion.
struct ResponsesRequest {
  std::string chat;  // the body
  std::string model;
  bool stream = false;
  bool store = true;
  std::string previous_id;           // empty: none
  std::string comparison_id;         // prompt_cache_options.comparison_response_id; empty: none
  std::string items;                 // the input items with their ids, a JSON array
  std::string messages;              // of the conversation so far, without instructions: "{…},{…}"
  std::string first_instructions;    // of the conversation's first items
  ResponsesTools tools;              // by their names in the chat
  std::vector<std::string> ignored;  // what was left out of the chat: "client_metadata", "tools[2]"
  std::size_t billing_lines = 0;     // of them
  std::string echo;  // members of the response object that repeat the request: "\"a\":1,\"b\":2"
};

/// Finds the response that previous_response_id names. kNotFound: the client has no such response.
using ResponseLookup =
    std::function<Result<std::shared_ptr<const StoredResponse>>(std::string_view id)>;

/// Translates the body of POST /v1/responses. `id` is what the ids of its input items end in.
///
/// Errors   kInvalidArgument: not such a request. kUnsupported: a chat completion cannot ask this.
///          kNotFound: no such file or response. All name the field.
/// Threads  Any.
/// Source   docs/protocols.md lists every field.
[[nodiscard]] Result<ResponsesRequest> read_responses_request(std::string_view body,
                                                              const FileLookup& files,
                                                              const ResponseLookup& responses,
                                                              std::string_view id,
                                                              bool keeps_billing_lines = false);

}  // namespace afterimage
