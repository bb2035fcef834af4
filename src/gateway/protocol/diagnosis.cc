// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/protocol/diagnosis.h"

#include <string_view>

#include "foundation/json/json_writer.h"

namespace afterimage {
namespace {

using State = PromptDiagnosis::State;

constexpr std::uint64_t kBytesPerToken = 4;

std::string type_only(std::string_view type) { return JsonObject().add_text("type", type).text(); }

std::string_view messages_reason(const PromptDiagnosis& diagnosis) {
  if (diagnosis.state == State::kNotFound) return "previous_message_not_found";
  if (!diagnosis.is_changed()) return "unavailable";
  switch (diagnosis.divergence.part->kind) {
    case PartKind::kModel:
      return "model_changed";
    case PartKind::kTools:
      return "tools_changed";
    case PartKind::kSystem:
      return "system_changed";
    case PartKind::kMessages:
    case PartKind::kPrompt:
    case PartKind::kMedia:
      return "messages_changed";
    case PartKind::kParameters:  // has no word of its own there
      break;
  }
  return "unavailable";
}

/// Empty: OpenAI has no word for it.
std::string_view responses_reason(const PartPlace& part) {
  switch (part.kind) {
    case PartKind::kModel:
      return "model_changed";
    case PartKind::kTools:
      return "tools_changed";
    case PartKind::kSystem:
    case PartKind::kMessages:
    case PartKind::kPrompt:
    case PartKind::kMedia:
      return "input_changed";
    case PartKind::kParameters:
      break;
  }
  const std::string place = to_string(part);
  if (place.ends_with(".reasoning_effort")) return "reasoning_effort_changed";
  if (place.ends_with(".verbosity")) return "verbosity_changed";
  if (place.ends_with(".response_format")) return "text_format_changed";
  return {};
}

}  // namespace

std::uint64_t PromptDiagnosis::tokens_of(std::uint64_t bytes, std::uint64_t prompt_tokens) const {
  if (prompt_tokens == 0 || divergence.total_bytes == 0) return bytes / kBytesPerToken;
  return static_cast<std::uint64_t>(static_cast<double>(bytes) *
                                    static_cast<double>(prompt_tokens) /
                                    static_cast<double>(divergence.total_bytes));
}

std::string messages_diagnostics(const PromptDiagnosis& diagnosis, std::uint64_t prompt_tokens) {
  const bool is_kept = diagnosis.state == State::kCompared && !diagnosis.is_changed();
  if (is_kept || diagnosis.state == State::kNotAsked || diagnosis.state == State::kAnswered) {
    return "null";
  }
  const std::string_view type = messages_reason(diagnosis);
  JsonObject reason;
  reason.add_text("type", type);
  if (type.ends_with("_changed")) {
    reason.add_number("cache_missed_input_tokens",
                      diagnosis.tokens_of(diagnosis.divergence.lost_bytes, prompt_tokens));
  }
  return JsonObject().add("cache_miss_reason", reason.text()).text();
}

std::string responses_diagnostics(const PromptDiagnosis& diagnosis, std::uint64_t prompt_tokens) {
  switch (diagnosis.state) {
    case State::kNotAsked:
      return "null";
    case State::kAnswered:
      return type_only("cache_hit");
    case State::kNotFound:
      return type_only("comparison_response_not_found");
    case State::kNotCompared:
      return type_only("unavailable");
    case State::kCompared:
      break;
  }
  const PromptDivergence& divergence = diagnosis.divergence;
  if (!divergence.part.has_value()) return type_only("cache_hit");
  const std::string_view reason = responses_reason(*divergence.part);
  if (reason.empty()) return type_only("unavailable");
  return JsonObject()
      .add_text("type", "cache_miss")
      .add_text("reason", reason)
      .add_number("cache_missed_tokens", diagnosis.tokens_of(divergence.lost_bytes, prompt_tokens))
      .add_number("comparison_reusable_tokens",
                  diagnosis.tokens_of(divergence.shared_bytes, prompt_tokens))
      .text();
}

}  // namespace afterimage
