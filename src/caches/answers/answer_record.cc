// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/answer.h"
#include "caches/identity/field_reader.h"
#include "caches/identity/fields.h"

namespace afterimage {
namespace {

constexpr std::string_view kDomain = "afterimage/answer/2";

FieldWriter fields_of(const Answer& answer) {
  FieldWriter fields(kDomain);
  fields.text("text", answer.text)
      .text("finish_reason", answer.finish_reason)
      .text("model", answer.model)
      .number("prompt_tokens", answer.prompt_tokens.value())
      .number("output_tokens", answer.output_tokens.value())
      .text("record", answer.record);
  return fields;
}

}  // namespace

bool is_whole(const Answer& answer) { return answer.finish_reason == "stop"; }

std::vector<std::byte> to_record(const Answer& answer) {
  const FieldWriter fields = fields_of(answer);
  return {fields.message().begin(), fields.message().end()};
}

Result<Answer> from_record(std::span<const std::byte> record) {
  FieldReader fields(record);
  fields.domain(kDomain);
  Answer answer;
  answer.text = fields.text("text");
  answer.finish_reason = fields.text("finish_reason");
  answer.model = fields.text("model");
  const auto count = [&](std::string_view name) {
    return TokenCount(static_cast<TokenCount::rep>(fields.number(name, TokenCount::max().value())));
  };
  answer.prompt_tokens = count("prompt_tokens");
  answer.output_tokens = count("output_tokens");
  answer.record = fields.text("record");
  if (!fields.is_done()) {
    return fail(ErrorCode::kCorruption,
                std::to_string(record.size()) + " bytes are no valid answer record");
  }
  return answer;
}

}  // namespace afterimage
