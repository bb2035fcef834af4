// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "caches/answers/answer_record.h"
#include "caches/answers/scope.h"
#include "caches/invalidation/invalidations.h"
#include "foundation/platform/clock.h"

namespace afterimage {

/// An answer as it outlives the process: with all by which it is found, judged and erased.
struct ArchivedAnswer {
  ScopeId scope;
  std::string question;        // that it was given to, in its own words
  std::uint64_t erasures = 0;  // how many there had been when it was made
  WallTime kept_at;
  std::optional<WallTime> expires = std::nullopt;  // absent: never
  Duration cost{0};
  TenantId owner;
  std::vector<std::string> tags;
  Answer answer;

  bool operator==(const ArchivedAnswer&) const = default;
};

/// Shape    The message of a FieldWriter, domain "afterimage/archived-answer/1":
///          docs/formats/keys.md.
/// Errors   kCorruption: not such a message, byte for byte.
/// Threads  Any.
[[nodiscard]] std::vector<std::byte> to_bytes(const ArchivedAnswer& archived);
[[nodiscard]] Result<ArchivedAnswer> archived_answer_from(std::span<const std::byte> bytes);

/// What an invalidation is matched against.
[[nodiscard]] InvalidationSubject subject_of(const ArchivedAnswer& archived);

/// What is kept under a looser form of a question: the words under which the answer is.
[[nodiscard]] std::vector<std::byte> archived_question_bytes(const std::string& question);
[[nodiscard]] Result<std::string> archived_question_from(std::span<const std::byte> bytes);

}  // namespace afterimage
