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

/// A model's answer to one question.
struct Answer {
  std::string text;
  std::string finish_reason;  // as in the OpenAI API: "stop", "length", …
  std::string model;          // the engine's own name
  TokenCount prompt_tokens{};
  TokenCount output_tokens{};
  std::string record = {};  // the whole response in the server's format; empty: only text

  bool operator==(const Answer&) const = default;
};

/// Whether the answer is complete and may be reused: not truncated, not filtered, no tool call.
[[nodiscard]] bool is_whole(const Answer& answer);

/// The serialized form of an answer: data only, nothing executable.
///
/// Shape    The message of a FieldWriter, domain "afterimage/answer/2": text, finish_reason, model,
///          prompt_tokens, output_tokens, record.
/// Errors   kCorruption: not such a message, byte for byte.
/// Threads  Any.
[[nodiscard]] std::vector<std::byte> to_record(const Answer& answer);
[[nodiscard]] Result<Answer> from_record(std::span<const std::byte> record);

}  // namespace afterimage
