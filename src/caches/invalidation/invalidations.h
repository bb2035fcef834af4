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

/// What an invalidation is matched against: an archived answer without its text. Views; valid while
/// the answer is.
struct InvalidationSubject {
  NamespaceId space;
  ScopeKey scope;
  std::string_view question;
  std::span<const std::string> tags;
  const TenantId& owner;
  WallTime kept_at;
  std::uint64_t invalidations = 0;  // how many there had been when the answer was made
};

/// One erasing of archived answers: all that had been kept before, and to which all applies that is
/// set.
struct Invalidation {
  std::uint64_t number = 0;  // it is the n-th of the archive
  std::optional<NamespaceId> space = std::nullopt;
  std::optional<ScopeKey> scope = std::nullopt;
  std::optional<std::string> question = std::nullopt;  // just these words
  std::string tag = {};
  TenantId owner = {};
  std::string words = {};
  std::optional<WallTime> kept_before = std::nullopt;

  bool operator==(const Invalidation&) const = default;
  /// kLimitExceeded: its text is more than InvalidationList::kMostBytes.
  [[nodiscard]] Result<void> check() const;
};

/// What has been erased from an archive, so that it is refused when it is read. Erasures are
/// numbered, and an answer bears the number of those that had been when it was made: no clock says
/// what was before.
///
/// Shape    At most kMost are told apart; the older half of them then becomes "all that was kept
///          before": that refuses too much, and never too little. The secret is part of all names
///          in the archive: who loses the list has lost what it was about.
/// Errors   kCorruption: bytes that are no such list. kLimitExceeded: longer words than kMostBytes.
/// Threads  Not thread-safe.
class InvalidationList {
 public:
  static constexpr std::size_t kMost = 256;
  static constexpr std::size_t kMostBytes = 4096;  // of an erasure's text

  explicit InvalidationList(const Secret& secret) : secret_(secret) {}
  static Result<InvalidationList> from_bytes(std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<std::byte> to_bytes() const;

  [[nodiscard]] const Secret& secret() const { return secret_; }
  /// How many there have been.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::size_t told_apart() const { return erasures_.size(); }
  /// Those that are told apart, in order.
  [[nodiscard]] const std::vector<Invalidation>& erasures() const { return erasures_; }
  /// What was made when there had been fewer is gone.
  [[nodiscard]] std::uint64_t all_before() const { return all_before_; }
  /// Whether this may have come of the earlier one, by adding and by telling less apart.
  [[nodiscard]] bool continues(const InvalidationList& earlier) const;
  /// Gives it its number.
  Result<void> add(Invalidation erasure);
  /// Tells less apart, the older half first, until to_bytes() is of no more than `most`.
  void shorten(std::size_t most);
  [[nodiscard]] bool refuses(const InvalidationSubject& subject) const;

  bool operator==(const InvalidationList&) const = default;

 private:
  /// At least one.
  void forget_the_older_half();

  Secret secret_;
  std::uint64_t count_ = 0;
  std::uint64_t all_before_ = 0;  // what was made when there had been fewer is gone
  std::vector<Invalidation> erasures_;
};

}  // namespace afterimage
