// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/invalidation/invalidation_log.h"

#include <string>
#include <utility>

#include "afterimage/secret.h"
#include "caches/identity/fields.h"

namespace afterimage {
namespace {

/// Attempts to win the race against concurrent writers.
constexpr int kAttempts = 32;
/// Remembered generations. Only a party that knows the key and misbehaves can create more.
constexpr std::size_t kMaxAbandoned = 4096;

std::unexpected<Error> contended() {
  return fail(ErrorCode::kUnavailable, "the shared invalidation list changed " +
                                           std::to_string(kAttempts) +
                                           " times during an update: try again");
}

}  // namespace

bool InvalidationLog::is_usable(const InvalidationList& list) const {
  if (abandoned_.contains(list.secret())) return false;
  return !seen_.has_value() || list.secret() != seen_->secret() || list.continues(*seen_);
}

void InvalidationLog::remember(const InvalidationList& list) {
  if (seen_.has_value() && seen_->secret() != list.secret()) abandoned_.insert(seen_->secret());
  if (abandoned_.size() > kMaxAbandoned) abandoned_.erase(abandoned_.begin());
  seen_ = list;
}

Result<InvalidationLog::Read> InvalidationLog::load() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    AFI_TRY(std::optional<SharedCell::Value> found, cell_.read());
    if (found.has_value()) {
      auto list = InvalidationList::from_bytes(found->bytes);
      if (list.has_value() && is_usable(*list)) {
        remember(*list);
        return Read{.list = *std::move(list), .version = std::move(found->version)};
      }
      // Processes of that version use it: replacing it would erase their answers.
      if (!list.has_value() && list.error().code == ErrorCode::kUnsupported) {
        return std::unexpected(std::move(list.error()));
      }
    }
    AFI_TRY(const Secret generation, random_secret());
    const InvalidationList empty(generation);
    const auto version = found.has_value() ? std::optional(found->version) : std::nullopt;
    // If another process was first, the next attempt reads its list.
    AFI_TRY_VOID(cell_.replace(version, empty.to_bytes()));
  }
  return contended();
}

Result<InvalidationList> InvalidationLog::read() {
  AFI_TRY(Read now, load());
  return std::move(now.list);
}

Result<InvalidationList> InvalidationLog::add(const Invalidation& invalidation) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    AFI_TRY(Read now, load());
    AFI_TRY_VOID(now.list.add(invalidation));
    now.list.shorten(kMaxBytes);
    AFI_TRY(const bool done, cell_.replace(now.version, now.list.to_bytes()));
    if (!done) continue;
    remember(now.list);
    AFI_TRY_VOID(cell_.replacements_last());
    return std::move(now.list);
  }
  return contended();
}

Secret InvalidationLog::names(const InvalidationList& list) const {
  FieldWriter fields("afterimage/shared-answers/1");
  fields.bytes("generation", list.secret());
  return hmac_sha256(root_, fields.message());
}

}  // namespace afterimage
