// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/media.h"

namespace afterimage {

enum class Role : unsigned char { kSystem, kUser, kAssistant, kTool };
std::string_view to_string(Role role);

using ContentPart = std::variant<std::string, MediaItem>;

/// A function that a model calls.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text, as the model wrote it
  bool operator==(const ToolCall&) const = default;
};

struct Message {
  Role role = Role::kUser;
  std::vector<ContentPart> parts = {};
  std::string reasoning = {};             // of an assistant's earlier answer
  std::vector<ToolCall> tool_calls = {};  // of an assistant's earlier answer
  std::string tool_call_id = {};          // of a tool's result: the call that it answers
  std::string name = {};                  // of a tool's result: the function
};

/// Where the prompt of a chat ends.
enum class PromptEnd : unsigned char {
  kDefault,        // at the start of an answer; if the last message is the assistant's: in it
  kNewAnswer,      // at the start of an answer
  kInLastMessage,  // the answer continues the last message
  kAfterMessages,  // after the last message, without the start of an answer
};

/// What an answer may be. Each is canonical JSON, except `grammar`; empty: the request says nothing.
struct AnswerRules {
  std::string tools;            // an array, as chat clients send it
  std::string tool_choice;      // "auto", "none", "required", with their quotes, or a function
  std::string response_format;  // {"type": "json_object"}, {"type": "json_schema", …}
  std::string grammar;          // in llama.cpp's GBNF
  std::string template_values;  // an object: more variables for the chat template
  bool parallel_tool_calls = false;
  PromptEnd prompt_end = PromptEnd::kDefault;
  bool operator==(const AnswerRules&) const = default;
};

/// The client's hint whether the conversation continues after this answer. The hint may be wrong;
/// policies learn how much to trust it. Append, never renumber: policies use it as an index.
enum class ContinuationHint : unsigned char { kNone, kGoesOn, kEnds };
std::string_view to_string(ContinuationHint hint);  // "unknown", "goes_on", "ends"

/// That a request is a step of a workflow of agents, by the client's own names. Steps with one workflow
/// name are one run of it. Both hints may be wrong: they cost entries of the same tenant only.
struct WorkflowHint {
  std::string workflow;  // empty: the request says nothing
  std::string step;
  std::vector<std::string> next_steps;  // that may follow this one; empty: unknown
  bool operator==(const WorkflowHint&) const = default;
};

/// What a client says about its request for eviction and prefetching. Hints may be wrong: they change
/// what stays cached, never an answer.
struct RequestHints {
  std::string agent = {};  // the agent that sent it; empty: none named
  ContinuationHint conversation = ContinuationHint::kNone;
  WorkflowHint workflow = {};
  bool operator==(const RequestHints&) const = default;
};

/// One request to a model: the whole conversation so far, as chat clients resend it.
struct Request {
  RequestId id;
  TenantId tenant;  // owner of the content
  /// By which an operator erases the owner's entries; empty: the text of `tenant`.
  std::string tenant_name = {};
  RequestHints hints = {};
  /// By which the entries that this request makes can be erased. At most EntryLabels::kMaxTags.
  std::vector<std::string> tags = {};
  std::vector<Message> messages;
  AnswerRules rules = {};
  /// The messages' parts are the prompt itself: no chat template, and roles mean nothing.
  bool is_completion = false;
  /// Of a completion: the prompt, if the client tokenized it; there are no messages then.
  std::vector<TokenId> prompt_tokens = {};
};

}  // namespace afterimage
