// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/ids.h"
#include "afterimage/units.h"
#include "caches/answers/scope.h"

namespace afterimage {

/// Names one kept answer: later ones have greater numbers, and none is given twice by one cache.
/// 0: none.
struct AnswerEntryId {
  std::uint64_t value = 0;
  auto operator<=>(const AnswerEntryId&) const = default;
};

/// A kept answer as people look at it. The answer itself is for those who ask its question.
struct AnswerEntry {
  AnswerEntryId id;
  std::string question;
  ScopeId scope;
  Duration age{0};
  std::optional<Duration> left = std::nullopt;  // 0: over, and not swept yet; absent: for ever
  Bytes bytes;                                  // as charged
  std::uint64_t uses = 0;                       // how often it was served
  Duration cost{0};                             // what each of them saved
  std::vector<std::string> tags;
  bool pinned = false;
  TenantId owner;
};

/// Which answers are meant: those to which all applies that is set. Nothing set: all.
struct AnswerFilter {
  std::optional<AnswerEntryId> entry = std::nullopt;
  std::optional<NamespaceId> space = std::nullopt;
  std::optional<ScopeKey> scope = std::nullopt;
  std::string tag = {};    // all of its bytes; empty: not set
  TenantId owner = {};     // empty: not set
  std::string words = {};  // stand so in the question, but for capitals of ASCII; empty: not set
  std::optional<Duration> older_than = std::nullopt;
};

struct AnswerCount {
  EntryCount entries;
  Bytes bytes;  // as charged

  AnswerCount& operator+=(const AnswerCount& other) {
    entries += other.entries;
    bytes += other.bytes;
    return *this;
  }
  AnswerCount& operator-=(const AnswerCount& other) {
    entries -= other.entries;
    bytes -= other.bytes;
    return *this;
  }
  friend AnswerCount operator+(AnswerCount a, const AnswerCount& b) { return a += b; }
  friend AnswerCount operator-(AnswerCount a, const AnswerCount& b) { return a -= b; }
  bool operator==(const AnswerCount&) const = default;
};

/// What is kept for one owner at most. Absent: as much as there is room.
struct AnswerQuota {
  std::optional<Bytes> bytes = std::nullopt;
  std::optional<EntryCount> entries = std::nullopt;

  [[nodiscard]] bool holds(const AnswerCount& count) const {
    return count.bytes <= bytes.value_or(Bytes::max()) &&
           count.entries <= entries.value_or(EntryCount::max());
  }
};

/// What is kept for one owner now.
struct AnswerUsage {
  TenantId owner;
  AnswerCount kept;
  AnswerCount pinned;  // of that
};

}  // namespace afterimage
