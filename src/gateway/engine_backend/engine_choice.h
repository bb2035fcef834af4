// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/engine.h"
#include "gateway/openai/live_events.h"
#include "gateway/proxy/id_generator.h"

namespace afterimage {

/// Writes one choice of an engine's answer as events: reads reasoning and tool calls out of its text
/// if it has a format, and sends what each new piece adds.
///
/// Threads  One at a time.
class EngineChoice {
 public:
  /// Both outlive it.
  EngineChoice(std::uint32_t index, LiveEvents& events, IdGenerator& ids);

  /// Before the first text; nullptr: plain text.
  void set_format(std::shared_ptr<const AnswerFormat> format) { format_ = std::move(format); }
  /// Goes with the next text.
  void add(const TokenLogprobs& token) { tokens_.push_back(token); }
  /// The events of a piece of the answer's text; often none.
  [[nodiscard]] OpenEvents add(std::string_view text);
  /// The last events: what `completion` has beyond the text so far, and the finish reason.
  [[nodiscard]] OpenEvents finish(const Completion& completion);

 private:
  OpenEvents send(const AnswerMessage& message);
  OpenEvents send_calls(const std::vector<ToolCall>& calls);
  OpenEvents send_content(std::string_view content);

  std::uint32_t index_;
  LiveEvents& events_;
  IdGenerator& ids_;
  std::shared_ptr<const AnswerFormat> format_;
  std::string text_;  // of the model, so far
  AnswerMessage sent_;
  std::vector<TokenLogprobs> tokens_;
};

}  // namespace afterimage
