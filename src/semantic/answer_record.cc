// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/semantic/answer_record.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "afterimage/identity/fields.h"

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

/// Takes a message apart that a FieldWriter has put together. Whatever is not as it would have
/// written it ends the reading, and nothing more is found.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> message) : rest_(message) {}

  std::string_view value(char type, std::string_view name) {
    if (take(1) != std::string_view(&type, 1) || take(length()) != name) ruin();
    return take(length());
  }
  std::string text(std::string_view name) { return std::string(value('T', name)); }
  TokenCount count(std::string_view name) {
    const std::string_view number = value('N', name);
    std::uint64_t count = 0;
    if (number.size() == sizeof count) std::memcpy(&count, number.data(), sizeof count);
    if constexpr (std::endian::native == std::endian::big) count = std::byteswap(count);
    if (number.size() != sizeof count || count > std::numeric_limits<TokenCount::rep>::max()) {
      ruin();
    }
    return TokenCount(static_cast<TokenCount::rep>(count));
  }
  /// All of it was read, and was as it should be.
  [[nodiscard]] bool is_done() const { return whole_ && rest_.empty(); }

 private:
  std::uint64_t length() {
    const std::string_view bytes = take(sizeof(std::uint64_t));
    std::uint64_t length = 0;
    if (bytes.size() == sizeof length) std::memcpy(&length, bytes.data(), sizeof length);
    if constexpr (std::endian::native == std::endian::big) length = std::byteswap(length);
    return length;
  }
  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) ruin();
    const auto taken = rest_.first(std::min<std::uint64_t>(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  void ruin() {
    whole_ = false;
    rest_ = {};
  }

  std::span<const std::byte> rest_;
  bool whole_ = true;
};

}  // namespace

bool is_whole(const Answer& answer) { return answer.finish_reason == "stop"; }

std::vector<std::byte> to_record(const Answer& answer) {
  const FieldWriter fields = fields_of(answer);
  return {fields.message().begin(), fields.message().end()};
}

Result<Answer> from_record(std::span<const std::byte> record) {
  FieldReader fields(record);
  const bool ours = fields.value('D', "") == kDomain;
  Answer answer;
  answer.text = fields.text("text");
  answer.finish_reason = fields.text("finish_reason");
  answer.model = fields.text("model");
  answer.prompt_tokens = fields.count("prompt_tokens");
  answer.output_tokens = fields.count("output_tokens");
  answer.record = fields.text("record");
  if (!ours || !fields.is_done()) {
    return fail(ErrorCode::kCorruption,
                std::to_string(record.size()) + " bytes are not the record of an answer");
  }
  return answer;
}

}  // namespace afterimage
