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

/// A prompt with the places of {question} left open: what is the same for all that is asked of one
/// sample's picture.
struct QuestionPlace {};
using PromptPart = std::variant<std::string, QuestionPlace>;

/// Fills a template in: {question}, {image_id}, {answer}, {full_answer}, {global_group},
/// {local_group}, {semantic_str}, {semantic_program}, {dataset_id}; other names are empty. "{{" and
/// "}}" are braces, and so is one that closes nothing. Line breaks stay.
///
/// Threads  Any.
[[nodiscard]] std::vector<PromptPart> prompt_parts(std::string_view prompt_template,
                                                   const Sample& sample);
/// The whole prompt, without white space around it.
[[nodiscard]] std::string render_prompt(std::string_view prompt_template, const Sample& sample);

/// kInvalidArgument: a template without {question} asks every sample the same nothing.
Result<void> check_template(std::string_view prompt_template);

}  // namespace afterimage
