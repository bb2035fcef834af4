// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/digest.h"
#include "afterimage/identity.h"
#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "foundation/crypto/sha256.h"

namespace afterimage {

/// What an invalidation is matched against: the metadata of an archived answer. Views; valid while
/// the answer is.
struct InvalidationSubject {
  NamespaceId space;
  ScopeKey scope;
  std::string_view question;
  std::span<const std::string> tags;
  const TenantId& owner;
  WallTime stored_at;
  std::uint64_t invalidations = 0;  // the list's count when the answer was created
};

/// One invalidation: applies to all answers created before it that match every field that is set.
struct Invalidation {
  std::uint64_t number = 0;  // its position in the list, from 1
  std::optional<NamespaceId> space = std::nullopt;
  std::optional<ScopeKey> scope = std::nullopt;
  std::optional<std::string> question = std::nullopt;  // the question's exact text
  std::string tag = {};
  TenantId owner = {};
  std::string words = {};
  std::optional<WallTime> stored_before = std::nullopt;

  bool operator==(const Invalidation&) const = default;
  /// kLimitExceeded: its text has more than InvalidationList::kMaxBytes bytes.
  [[nodiscard]] Result<void> check() const;
};

/// The invalidations of an archive; an invalidated answer is rejected when it is read. They are
/// numbered, and an answer records how many there were when it was created: "before" depends
/// on no clock.
///
/// Shape    At most kMaxEntries entries; then the older half is merged into "every answer before":
///          that rejects too much, never too little. All keys of the archive are derived from the
///          list's secret: without the list, its answers cannot be found.
/// Errors   kCorruption: bytes that are no such list. kLimitExceeded: an invalidation with more
///          than kMaxBytes of text.
/// Threads  Not thread-safe.
/// Source   docs/formats/keys.md for the bytes.
class InvalidationList {
 public:
  static constexpr std::size_t kMaxEntries = 256;
  static constexpr std::size_t kMaxBytes = 4096;  // of one invalidation's text

  explicit InvalidationList(const Secret& secret) : secret_(secret) {}
  static Result<InvalidationList> from_bytes(std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<std::byte> to_bytes() const;

  [[nodiscard]] const Secret& secret() const { return secret_; }
  /// The number of invalidations ever added.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// The entries not merged yet, in order.
  [[nodiscard]] const std::vector<Invalidation>& entries() const { return entries_; }
  /// Answers created at a smaller count are invalid.
  [[nodiscard]] std::uint64_t all_before() const { return all_before_; }
  /// Whether this list can have come from `earlier` by adding and merging.
  [[nodiscard]] bool continues(const InvalidationList& earlier) const;
  /// Appends it and assigns its number.
  Result<void> add(Invalidation invalidation);
  /// Merges older halves until to_bytes() has at most `max_bytes` bytes.
  void shorten(std::size_t max_bytes);
  [[nodiscard]] bool refuses(const InvalidationSubject& subject) const;

  bool operator==(const InvalidationList&) const = default;

 private:
  /// Merges at least one entry.
  void merge_older_half();

  Secret secret_;
  std::uint64_t count_ = 0;
  std::uint64_t all_before_ = 0;  // answers created at a smaller count are invalid
  std::vector<Invalidation> entries_;
};

}  // namespace afterimage
