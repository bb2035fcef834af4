// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace afterimage {

// Lines at the beginning of a system prompt that a client writes for its own service, with a value that
// changes from request to request. The model is better off without them, and every prefix that begins with
// one would be new: vLLM and Ollama leave them out, too. So do all APIs here: they are no part of the
// prompt, of the request's identity or of its routing.
// Threads  Any.

/// The text after its volatile line, if it begins with one; empty: there is no more.
[[nodiscard]] std::string_view without_volatile_line(std::string_view text);

struct ChatWithout {
  std::string body;
  std::vector<std::string> left_out;  // "messages[0].content[0]"
  bool operator==(const ChatWithout&) const = default;
};
/// The body of a chat without the volatile lines of its system messages, and without texts and messages
/// that were nothing else. Everything else stays as it is, byte for byte. nullopt: it has none.
[[nodiscard]] std::optional<ChatWithout> without_volatile_lines(std::string_view chat);

}  // namespace afterimage
