// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// What a model said to one question.
struct Answer {
  std::string text;
  std::string finish_reason;  // why it stopped, in the words of the OpenAI API: "stop", "length", …
  std::string model;          // as the engine names itself
  TokenCount prompt_tokens{};
  TokenCount output_tokens{};
  std::string record = {};  // the whole answer as whoever serves it keeps it; empty: text is all

  bool operator==(const Answer&) const = default;
};

/// The model ended the answer by itself: it was not truncated or filtered, and calls no tool. Only
/// whole answers are served to other wordings of the question (AnswerFacts::keep_partial).
[[nodiscard]] bool is_whole(const Answer& answer);

/// The one form in which an answer is kept: data only, nothing that anybody would execute.
///
/// Shape    The message of a FieldWriter, domain "afterimage/answer/2": text, finish_reason, model,
///          prompt_tokens, output_tokens, record.
/// Errors   kCorruption: not such a message, byte for byte.
/// Threads  Any.
[[nodiscard]] std::vector<std::byte> to_record(const Answer& answer);
[[nodiscard]] Result<Answer> from_record(std::span<const std::byte> record);

}  // namespace afterimage
