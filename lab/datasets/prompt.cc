// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/datasets/prompt.h"

#include <array>
#include <utility>

#include "foundation/text/json_lines.h"
#include "lab/datasets/chunk_source.h"

namespace afterimage {
namespace {

constexpr std::string_view kQuestionName = "question";

std::string value_of(std::string_view name, const Sample& sample) {
  const auto values = std::to_array<std::pair<std::string_view, const std::string*>>(
      {{"image_id", &sample.image_id},
       {"answer", &sample.answer},
       {"full_answer", &sample.full_answer},
       {"global_group", &sample.global_group},
       {"local_group", &sample.local_group},
       {"semantic_str", &sample.semantic_str},
       {"dataset_id", &sample.dataset_id}});
  if (name == "semantic_program") return program_text(sample);
  for (const auto& [known, value] : values) {
    if (known == name) return *value;
  }
  return "";
}

/// Whether the text between braces is a placeholder name.
bool is_name(std::string_view text) {
  return text.find_first_of("{\n\"' ") == std::string_view::npos;
}

}  // namespace

std::vector<PromptPart> prompt_parts(std::string_view prompt_template, const Sample& sample) {
  std::vector<PromptPart> parts;
  std::string text;
  for (std::size_t i = 0; i < prompt_template.size(); ++i) {
    const char c = prompt_template[i];
    const std::string_view rest = prompt_template.substr(i);
    if (rest.starts_with("{{") || rest.starts_with("}}")) {
      text += c;
      ++i;
      continue;
    }
    const std::size_t end = c == '{' ? rest.find('}') : std::string_view::npos;
    if (end == std::string_view::npos || !is_name(rest.substr(1, end - 1))) {
      text += c;
      continue;
    }
    const std::string_view name = rest.substr(1, end - 1);
    if (name == kQuestionName) {
      parts.emplace_back(std::exchange(text, {}));
      parts.emplace_back(QuestionPlace{});
    } else {
      text += value_of(name, sample);
    }
    i += end;
  }
  parts.emplace_back(std::move(text));
  return parts;
}

std::string render_prompt(std::string_view prompt_template, const Sample& sample) {
  std::string prompt;
  for (const PromptPart& part : prompt_parts(prompt_template, sample)) {
    const auto* text = std::get_if<std::string>(&part);
    prompt += text == nullptr ? sample.question : *text;
  }
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = prompt.find_first_not_of(kSpace);
  if (first == std::string::npos) return "";
  return prompt.substr(first, prompt.find_last_not_of(kSpace) - first + 1);
}

Result<void> check_template(std::string_view prompt_template) {
  for (const PromptPart& part : prompt_parts(prompt_template, {})) {
    if (std::holds_alternative<QuestionPlace>(part)) return {};
  }
  return malformed(
      "the prompt template has no {question}, so all samples would get the same prompt without "
      "their question");
}

}  // namespace afterimage
