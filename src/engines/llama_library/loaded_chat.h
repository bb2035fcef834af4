// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/engine.h"
#include "engines/llama_library/loaded_model.h"

namespace afterimage {

/// How a model with this chat template calls functions, thinks, and keeps to a response format: read
/// and constrained by llama.cpp's library `common`, as in llama-server.
class ChatFormat final : public AnswerFormat {
 public:
  struct State;  // the library's objects, for the files that include its headers
  explicit ChatFormat(std::unique_ptr<const State> state);
  ~ChatFormat() override;

  [[nodiscard]] Result<AnswerMessage> read(std::string_view text, bool is_whole) const override;
  /// Texts that end an answer besides those of the request.
  [[nodiscard]] const std::vector<std::string>& stops() const;
  [[nodiscard]] const State& state() const { return *state_; }

 private:
  std::unique_ptr<const State> state_;
};

struct RenderedChat {
  std::string prompt;
  std::shared_ptr<const ChatFormat> format = nullptr;  // plain text
  bool lacks_tools = false;  // the request's tools, which the template does not know
  // Bytes from there to the end of the prompt; 0: it is not found there.
  std::size_t from_question = 0;  // where the text of the user's last message begins
  /// Where the text of the last message ends, if the template then begins a thought, which it leaves out
  /// in the next turn.
  std::size_t from_thought = 0;
};

/// Renders the conversation with the chat template, up to the start of the assistant's answer; a
/// completion is its text. No text of the request becomes a control token.
///
/// Errors   kInvalidArgument: the template or the library refuses the messages, tools, schema or
///          grammar. kUnsupported: tools or a response format, but a built-in template that is
///          chosen by name.
/// Threads  Any.
Result<RenderedChat> render_chat(const LoadedModel& model, const Request& request);

/// What of the rules the grammar of an answer leaves out. See Engine::unenforced().
[[nodiscard]] std::vector<std::string> unenforced(const LoadedModel& model,
                                                  const AnswerRules& rules);

}  // namespace afterimage
