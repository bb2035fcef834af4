// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/answers/archived_answer.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "caches/identity/field_reader.h"
#include "caches/identity/fields.h"

namespace afterimage {
namespace {

constexpr std::string_view kArchivedAnswer = "afterimage/archived-answer/1";
constexpr std::string_view kArchivedQuestion = "afterimage/archived-question/1";
constexpr std::uint64_t kLatest = std::numeric_limits<Duration::rep>::max();

std::uint64_t nanoseconds(Duration duration) {
  return static_cast<std::uint64_t>(std::max(duration, Duration(0)).count());
}

Duration duration_of(FieldReader& fields, std::string_view name) {
  return Duration(static_cast<Duration::rep>(fields.number(name, kLatest)));
}

std::vector<std::byte> message_of(const FieldWriter& fields) {
  return {fields.message().begin(), fields.message().end()};
}

std::unexpected<Error> not_valid(std::span<const std::byte> bytes, const char* what) {
  return fail(ErrorCode::kCorruption,
              std::to_string(bytes.size()) + " bytes are not " + std::string(what));
}

}  // namespace

std::vector<std::byte> to_bytes(const ArchivedAnswer& archived) {
  FieldWriter fields(kArchivedAnswer);
  fields.bytes("space", archived.scope.space.bytes)
      .bytes("scope", archived.scope.key.bytes)
      .number("loosest", static_cast<std::uint64_t>(archived.scope.loosest))
      .text("question", archived.question)
      .number("erasures", archived.invalidations)
      .number("kept_at", nanoseconds(archived.stored_at.time_since_epoch()))
      .number("expires", archived.expires.has_value() ? 1 : 0);
  if (archived.expires.has_value()) {
    fields.number("at", nanoseconds(archived.expires->time_since_epoch()));
  }
  fields.number("cost", nanoseconds(archived.cost))
      .text("owner", archived.owner.text())
      .number("tags", archived.tags.size());
  for (const std::string& tag : archived.tags) fields.text("tag", tag);
  fields.bytes("answer", to_record(archived.answer));
  return message_of(fields);
}

Result<ArchivedAnswer> archived_answer_from(std::span<const std::byte> bytes) {
  FieldReader fields(bytes);
  fields.domain(kArchivedAnswer);
  ArchivedAnswer archived;
  archived.scope.space.bytes = fields.bytes<kDigestBytes>("space");
  archived.scope.key.bytes = fields.bytes<kDigestBytes>("scope");
  archived.scope.loosest = static_cast<MatchLevel>(
      fields.number("loosest", static_cast<std::uint64_t>(kMatchLevels.back())));
  archived.question = fields.text("question");
  archived.invalidations = fields.number("erasures");
  archived.stored_at = WallTime(duration_of(fields, "kept_at"));
  if (fields.number("expires", 1) == 1) archived.expires = WallTime(duration_of(fields, "at"));
  archived.cost = duration_of(fields, "cost");
  archived.owner = TenantId(fields.text("owner"));
  for (std::uint64_t tags = fields.number("tags"); tags > 0 && fields.is_whole(); --tags) {
    archived.tags.push_back(fields.text("tag"));
  }
  const std::string_view record = fields.value('B', "answer");
  if (!fields.is_done()) return not_valid(bytes, "an archived answer");
  AFI_TRY(archived.answer, from_record(std::as_bytes(std::span(record))));
  return archived;
}

std::vector<std::byte> archived_question_bytes(const std::string& question) {
  FieldWriter fields(kArchivedQuestion);
  fields.text("question", question);
  return message_of(fields);
}

Result<std::string> archived_question_from(std::span<const std::byte> bytes) {
  FieldReader fields(bytes);
  fields.domain(kArchivedQuestion);
  std::string question = fields.text("question");
  if (!fields.is_done()) return not_valid(bytes, "an archived question");
  return question;
}

InvalidationSubject subject_of(const ArchivedAnswer& archived) {
  return {.space = archived.scope.space,
          .scope = archived.scope.key,
          .question = archived.question,
          .tags = archived.tags,
          .owner = archived.owner,
          .stored_at = archived.stored_at,
          .invalidations = archived.invalidations};
}

}  // namespace afterimage
