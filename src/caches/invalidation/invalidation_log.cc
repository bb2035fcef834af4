// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/invalidation/invalidation_log.h"

#include <utility>

#include "afterimage/secret.h"
#include "caches/identity/fields.h"

namespace afterimage {
namespace {

/// Others may be first so often.
constexpr int kAttempts = 32;
/// Generations that are remembered; whoever makes more of them lies, and knows the key.
constexpr std::size_t kMostLeft = 4096;

std::unexpected<Error> always_late() {
  return fail(ErrorCode::kUnavailable, "others change the list of what is erased all the time");
}

}  // namespace

bool InvalidationLog::goes_on(const InvalidationList& list) const {
  if (left_.contains(list.secret())) return false;
  return !seen_.has_value() || list.secret() != seen_->secret() || list.continues(*seen_);
}

void InvalidationLog::note(const InvalidationList& list) {
  if (seen_.has_value() && seen_->secret() != list.secret()) left_.insert(seen_->secret());
  if (left_.size() > kMostLeft) left_.erase(left_.begin());
  seen_ = list;
}

Result<InvalidationLog::Read> InvalidationLog::look() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    AFI_TRY(std::optional<SharedCell::Value> found, cell_.read());
    if (found.has_value()) {
      auto list = InvalidationList::from_bytes(found->bytes);
      if (list.has_value() && goes_on(*list)) {
        note(*list);
        return Read{.list = *std::move(list), .version = std::move(found->version)};
      }
    }
    AFI_TRY(const Secret generation, random_secret());
    const InvalidationList none(generation);
    const auto version = found.has_value() ? std::optional(found->version) : std::nullopt;
    // What stands there then is read, as by all others.
    AFI_TRY_VOID(cell_.replace(version, none.to_bytes()));
  }
  return always_late();
}

Result<InvalidationList> InvalidationLog::read() {
  AFI_TRY(Read now, look());
  return std::move(now.list);
}

Result<InvalidationList> InvalidationLog::add(const Invalidation& erasure) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    AFI_TRY(Read now, look());
    AFI_TRY_VOID(now.list.add(erasure));
    now.list.shorten(kMostBytes);
    AFI_TRY(const bool done, cell_.replace(now.version, now.list.to_bytes()));
    if (!done) continue;
    note(now.list);
    return std::move(now.list);
  }
  return always_late();
}

Secret InvalidationLog::names(const InvalidationList& list) const {
  FieldWriter fields("afterimage/shared-answers/1");
  fields.bytes("generation", list.secret());
  return hmac_sha256(root_, fields.message());
}

}  // namespace afterimage
