// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/semantic/shared_erasures.h"

#include <utility>

#include "afterimage/identity/fields.h"
#include "afterimage/platform/random.h"

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

bool SharedErasures::goes_on(const AnswerErasures& list) const {
  if (left_.contains(list.secret())) return false;
  return !seen_.has_value() || list.secret() != seen_->secret() || list.continues(*seen_);
}

void SharedErasures::note(const AnswerErasures& list) {
  if (seen_.has_value() && seen_->secret() != list.secret()) left_.insert(seen_->secret());
  if (left_.size() > kMostLeft) left_.erase(left_.begin());
  seen_ = list;
}

Result<SharedErasures::Read> SharedErasures::look() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    AFI_TRY(std::optional<SharedCell::Value> found, cell_.read());
    if (found.has_value()) {
      auto list = AnswerErasures::from_bytes(found->bytes);
      if (list.has_value() && goes_on(*list)) {
        note(*list);
        return Read{.list = *std::move(list), .version = std::move(found->version)};
      }
    }
    AFI_TRY(const Secret generation, random_secret());
    const AnswerErasures none(generation);
    const auto version = found.has_value() ? std::optional(found->version) : std::nullopt;
    // What stands there then is read, as by all others.
    AFI_TRY_VOID(cell_.replace(version, none.to_bytes()));
  }
  return always_late();
}

Result<AnswerErasures> SharedErasures::read() {
  AFI_TRY(Read now, look());
  return std::move(now.list);
}

Result<AnswerErasures> SharedErasures::add(const AnswerErasure& erasure) {
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

Secret SharedErasures::names(const AnswerErasures& list) const {
  FieldWriter fields("afterimage/shared-answers/1");
  fields.bytes("generation", list.secret());
  return hmac_sha256(root_, fields.message());
}

}  // namespace afterimage
