// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/answer.h"
#include "afterimage/clock.h"
#include "afterimage/ids.h"
#include "afterimage/question.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "caches/invalidation/invalidations.h"

namespace afterimage {

/// An archived answer, with everything needed to find, check and invalidate it.
struct ArchivedAnswer {
  ScopeId scope;
  std::string question;             // the exact text that it answers
  std::uint64_t invalidations = 0;  // the list's count when it was created
  WallTime stored_at;
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

/// The entry of a looser form: the exact text under which the answer is stored.
[[nodiscard]] std::vector<std::byte> archived_question_bytes(const std::string& question);
[[nodiscard]] Result<std::string> archived_question_from(std::span<const std::byte> bytes);

}  // namespace afterimage
