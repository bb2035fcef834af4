// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/openai/request.h"

namespace afterimage {

/// What a prompt consists of, in the order of a template.
enum class PartKind : unsigned char {
  kModel,
  kParameters,  // fields that change how the prompt is rendered
  kTools,
  kSystem,    // system messages before the first other one
  kMessages,  // each with its role, its text, its tool calls
  kPrompt,    // of a completion
  kMedia,     // after the message that it is in
};
inline constexpr std::size_t kPartKinds = 7;
/// "model", "parameters", "tools", "system", "messages", "prompt", "media".
std::string_view to_string(PartKind kind);

/// One part of a prompt.
struct PartPlace {
  PartKind kind = PartKind::kModel;
  /// Of a parameter its index in prompt_fields(), else the position in the request: the third tool, the
  /// message with that index, the second of all media. 0 for the model and a prompt.
  std::uint32_t index = 0;
  auto operator<=>(const PartPlace&) const = default;
};
/// "model", "parameters.chat_template_kwargs", "tools[2]", "system" or "system[1]", "messages[3]", "prompt",
/// "media[0]". Nothing in it comes from a client.
std::string to_string(const PartPlace& place);

/// Fields of a body that change how a prompt is rendered, besides messages and tools: "chat_template", ….
std::span<const std::string_view> prompt_fields();

/// A piece of a prompt, as the request has it. A part has one or several, one after the other; the media of
/// a message stand between its texts.
struct PartPiece {
  enum class Kind : unsigned char {
    kName,    // of the model, of a parameter, of a message's role; the part begins
    kFields,  // what a message has besides role and content, as JSON: tool calls, reasoning
    kText,    // of a message, a tool, a parameter, a prompt
    kMedia,
  };
  Kind kind = Kind::kText;
  PartPlace part = {};
  std::string_view text = {};
  const ApiMedia* media = nullptr;  // of kMedia
};
/// The prompt of a request in the order of a template: model, parameters, tools, messages with their media.
/// It refers to the request.
///
/// Cost     One pass over the tools' JSON; nothing else is read.
/// Threads  Any.
[[nodiscard]] std::vector<PartPiece> prompt_pieces(const ApiRequest& request);

}  // namespace afterimage
