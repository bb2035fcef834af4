// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "tier_names.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"

namespace afterimage::python {

namespace {

constexpr Bytes kMaxListBytes = 4_MiB;

bool concerns(const Invalidation& invalidation, const NamespaceId* space) {
  if (!invalidation.space.has_value()) return true;
  return space != nullptr && *invalidation.space == *space;
}

/// The number of the last invalidation that concerns the namespace; 0: there is none.
std::uint64_t last_number(const InvalidationList& list, const NamespaceId* space) {
  std::uint64_t last = list.all_before();
  for (const Invalidation& invalidation : list.entries()) {
    if (concerns(invalidation, space)) last = std::max(last, invalidation.number);
  }
  return last;
}

}  // namespace

Result<std::unique_ptr<TierNames>> TierNames::open(TierPtr below, std::string kind,
                                                   const Secret& root, EraseMemory erase_memory) {
  std::unique_ptr<TierNames> names(new TierNames(std::move(erase_memory)));
  AFI_TRY(names->place_, InvalidationPlace::open(std::move(below), std::move(kind), root));
  if (names->place_->log() == nullptr) {
    AFI_TRY_VOID(names->read_file());
    return names;
  }
  AFI_TRY_VOID(names->reset_file());
  names->refresh();
  names->poller_ = std::make_unique<PeriodicTask>([it = names.get()] { it->refresh(); },
                                                  InvalidationLog::kPollEvery);
  return names;
}

Result<void> TierNames::read_file() {
  usable_until_ = Duration::max();
  const auto bytes = place_->files().read(place_->file(), kMaxListBytes);
  if (bytes.has_value()) {
    auto known = InvalidationList::from_bytes(*bytes);
    if (known.has_value()) {
      list_ = *std::move(known);
      names_ = list_.secret();
      return {};
    }
    degraded_reason_ = place_->file() + ": " + known.error().message + "; all entries are lost";
  } else if (bytes.error().code == ErrorCode::kUnavailable) {
    return std::unexpected(bytes.error());
  } else if (bytes.error().code != ErrorCode::kNotFound) {
    degraded_reason_ = place_->file() + ": " + bytes.error().message + "; all entries are lost";
  }
  AFI_TRY(names_, random_secret());
  list_ = InvalidationList(names_);
  return place_->files().replace(place_->file(), list_.to_bytes());
}

/// Erasures are recorded on the servers from now on, and not in the file: what was stored under it
/// must not be found again.
Result<void> TierNames::reset_file() {
  if (place_->file().empty()) return {};
  AFI_TRY(const Secret none_yet, random_secret());
  return place_->files().replace(place_->file(), InvalidationList(none_yet).to_bytes());
}

std::optional<Secret> TierNames::secret_of(const NamespaceId* space) const {
  const std::lock_guard lock(mutex_);
  if (!persisted_ || clock_.now() >= usable_until_) return std::nullopt;
  FieldWriter fields("afterimage/erasable-names/1");
  fields.number("erasure", last_number(list_, space));
  return hmac_sha256(names_, fields.message());
}

Result<void> TierNames::erase(const NamespaceId* space) {
  Invalidation invalidation;
  if (space != nullptr) invalidation.space = *space;
  const auto added = add(invalidation);
  erase_memory_(space);
  AFI_TRY_VOID(added);
  // Until then other processes may use what they looked up under their lease.
  if (place_->log() != nullptr) std::this_thread::sleep_for(InvalidationLog::kLeaseGuard);
  return {};
}

Result<void> TierNames::add(const Invalidation& invalidation) {
  const std::lock_guard one(changing_);
  if (place_->log() == nullptr) return persist(invalidation);
  const Duration read_at = clock_.now();
  auto next = place_->log()->add(invalidation);
  if (next.has_value()) {
    apply(*std::move(next), read_at);
    return {};
  }
  const std::lock_guard lock(mutex_);
  degraded_reason_ = next.error().message;
  return fail(ErrorCode::kUnavailable,
              "erased from this process's memory only; the tier still has the entries, and other "
              "processes may use them: " +
                  next.error().message + "; erase again when the servers can be reached");
}

Result<void> TierNames::persist(const Invalidation& invalidation) {
  InvalidationList next = [&] {
    const std::lock_guard lock(mutex_);
    return list_;
  }();
  AFI_TRY_VOID(next.add(invalidation));
  const auto written = place_->files().replace(place_->file(), next.to_bytes());
  const std::lock_guard lock(mutex_);
  list_ = std::move(next);
  persisted_ = written.has_value();
  degraded_reason_ = persisted_ ? "" : written.error().message;
  if (persisted_) return {};
  return fail(ErrorCode::kUnavailable,
              "erased until this process ends, and later processes would find the entries again: " +
                  written.error().message + "; make the file writable and erase again");
}

void TierNames::refresh() {
  const std::lock_guard one(changing_);
  const Duration read_at = clock_.now();
  auto next = place_->log()->read();
  if (next.has_value()) return apply(*std::move(next), read_at);
  const std::lock_guard lock(mutex_);
  degraded_reason_ = next.error().message;
}

/// The new names first, so that nothing erased is loaded into memory after memory was erased.
void TierNames::apply(InvalidationList next, Duration read_at) {
  const InvalidationList known = [&] {
    const std::lock_guard lock(mutex_);
    if (list_ != next) usable_until_ = Duration::min();
    return std::exchange(list_, next);
  }();
  const bool never_read = known.secret() == Secret{};
  if (!never_read && (known.secret() != next.secret() || next.all_before() > known.count())) {
    erase_memory_(nullptr);
  } else if (!never_read) {  // what is in memory then came from this process
    for (const Invalidation& invalidation : next.entries()) {
      if (invalidation.number <= known.count()) continue;
      erase_memory_(invalidation.space.has_value() ? &*invalidation.space : nullptr);
    }
  }
  const std::lock_guard lock(mutex_);
  names_ = place_->log()->names(next);
  usable_until_ = read_at + InvalidationLog::kLease;
  degraded_reason_.clear();
}

std::string TierNames::degraded_reason() const {
  const std::lock_guard lock(mutex_);
  return degraded_reason_;
}

}  // namespace afterimage::python
