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

/// Identifies a cached answer. Increases with every insertion and is never reused by one cache.
/// 0: none.
struct AnswerEntryId {
  std::uint64_t value = 0;
  auto operator<=>(const AnswerEntryId&) const = default;
};

/// The metadata of a cached answer, for listings. The answer itself is not included.
struct AnswerEntry {
  AnswerEntryId id;
  std::string question;
  ScopeId scope;
  Duration age{0};
  /// Until expiry. 0: expired, not removed yet; absent: no expiry.
  std::optional<Duration> left = std::nullopt;
  Bytes bytes;             // as charged
  std::uint64_t uses = 0;  // times served
  Duration cost{0};        // saved by each use
  std::vector<std::string> tags;
  bool pinned = false;
  TenantId owner;
};

/// Selects answers that match every field that is set. Nothing set: all answers.
struct AnswerFilter {
  std::optional<AnswerEntryId> entry = std::nullopt;
  std::optional<NamespaceId> space = std::nullopt;
  std::optional<ScopeKey> scope = std::nullopt;
  std::string tag = {};    // compared in full; empty: not set
  TenantId owner = {};     // empty: not set
  std::string words = {};  // substring of the question, ASCII case-insensitive; empty: not set
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

/// Limits on one owner's cached answers. Absent: no limit of its own.
struct AnswerQuota {
  std::optional<Bytes> bytes = std::nullopt;
  std::optional<EntryCount> entries = std::nullopt;

  [[nodiscard]] bool holds(const AnswerCount& count) const {
    return count.bytes <= bytes.value_or(Bytes::max()) &&
           count.entries <= entries.value_or(EntryCount::max());
  }
};

/// One owner's cached answers.
struct AnswerUsage {
  TenantId owner;
  AnswerCount kept;
  AnswerCount pinned;  // part of kept
};

}  // namespace afterimage
