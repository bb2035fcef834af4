// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "afterimage/result.h"
#include "lab/datasets/sample.h"

namespace afterimage {

/// A prompt split at {question}; the other parts are the same for all questions about a sample's
/// image.
struct QuestionPlace {};
using PromptPart = std::variant<std::string, QuestionPlace>;

/// Expands a template: {question}, {image_id}, {answer}, {full_answer}, {global_group},
/// {local_group}, {semantic_str}, {semantic_program}, {dataset_id}; unknown names expand to
/// nothing. "{{" and "}}" are literal braces, as is an unmatched one. Line breaks are preserved.
///
/// Threads  Any.
[[nodiscard]] std::vector<PromptPart> prompt_parts(std::string_view prompt_template,
                                                   const Sample& sample);
/// The whole prompt, trimmed.
[[nodiscard]] std::string render_prompt(std::string_view prompt_template, const Sample& sample);

/// kInvalidArgument: a template without {question}.
Result<void> check_template(std::string_view prompt_template);

}  // namespace afterimage
