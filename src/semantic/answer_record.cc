// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/semantic/answer_record.h"

#include <algorithm>
#include <cstring>

#include "afterimage/identity/fields.h"

namespace afterimage {
namespace {

FieldWriter fields_of(const Answer& answer) {
  FieldWriter fields("afterimage/answer/1");
  fields.text("text", answer.text)
      .text("finish_reason", answer.finish_reason)
      .text("model", answer.model)
      .number("prompt_tokens", answer.prompt_tokens.value())
      .number("output_tokens", answer.output_tokens.value());
  return fields;
}

std::uint64_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i) {
    number |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
  }
  return number;
}

/// The value of the next field, whatever its name; shorter than it claims to be if `rest` ends.
/// What the names and types were is found out by writing the answer again.
std::span<const std::byte> take_value(std::span<const std::byte>& rest) {
  constexpr std::size_t kLength = sizeof(std::uint64_t);
  const auto take = [&rest](std::uint64_t size) {
    const std::size_t taken = std::min<std::uint64_t>(size, rest.size());
    const auto front = rest.first(taken);
    rest = rest.subspan(taken);
    return front;
  };
  const auto take_length = [&] {
    const auto length = take(kLength);
    return length.size() == kLength ? number_at(length, 0) : 0;
  };
  take(1);
  take(take_length());
  return take(take_length());
}

std::string text_of(std::span<const std::byte> value) {
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

TokenCount count_of(std::span<const std::byte> value) {
  return TokenCount(value.size() == sizeof(std::uint64_t)
                        ? static_cast<TokenCount::rep>(number_at(value, 0))
                        : 0);
}

}  // namespace

bool is_whole(const Answer& answer) { return answer.finish_reason == "stop"; }

std::vector<std::byte> to_record(const Answer& answer) {
  const FieldWriter fields = fields_of(answer);
  return {fields.message().begin(), fields.message().end()};
}

Result<Answer> from_record(std::span<const std::byte> record) {
  std::span<const std::byte> rest = record;
  take_value(rest);  // the domain
  Answer answer;
  answer.text = text_of(take_value(rest));
  answer.finish_reason = text_of(take_value(rest));
  answer.model = text_of(take_value(rest));
  answer.prompt_tokens = count_of(take_value(rest));
  answer.output_tokens = count_of(take_value(rest));
  if (!std::ranges::equal(fields_of(answer).message(), record)) {
    return fail(ErrorCode::kCorruption,
                std::to_string(record.size()) + " bytes are not the record of an answer");
  }
  return answer;
}

}  // namespace afterimage
