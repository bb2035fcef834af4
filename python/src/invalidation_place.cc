// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <chrono>
#include <utility>

#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"
#include "tiers.h"

namespace afterimage::python {

namespace {

/// The gateway's place for answers, so that both apply each other's invalidations.
std::string place_domain(const std::string& kind) {
  return kind == "answers" ? "afterimage/shared-erasures/1"
                           : "afterimage/shared-erasures-of-" + kind + "/1";
}

}  // namespace

Result<std::unique_ptr<InvalidationPlace>> InvalidationPlace::open(TierPtr below, std::string kind,
                                                                   const Secret& root) {
  std::unique_ptr<InvalidationPlace> place(
      new InvalidationPlace(std::move(below), std::move(kind)));
  AFI_TRY_VOID(place->find_leaves(place->below_));
  if (place->disk_ != nullptr) AFI_TRY_VOID(place->use_disk());
  if (place->servers_ != nullptr) AFI_TRY_VOID(place->use_servers(root));
  std::vector<Tier*> nearest_first;
  for (const TierPtr& leaf : place->leaves_) nearest_first.push_back(leaf->tier);
  place->stack_ =
      std::make_unique<TierStack>(std::move(nearest_first), TierStack::Keys::kAreReplaced);
  place->tier_ = place->leaves_.size() == 1 ? place->leaves_.front()->tier : place->stack_.get();
  return place;
}

InvalidationPlace::~InvalidationPlace() {
  if (!recorded_) return;
  const std::lock_guard lock(disk_->mutex);
  disk_->recorded.erase(kind_);
}

Result<void> InvalidationPlace::find_leaves(const TierPtr& store) {
  for (const TierPtr& tier : store->stacked) AFI_TRY_VOID(find_leaves(tier));
  if (!store->stacked.empty()) return {};
  TierPtr& slot = store->disk != nullptr ? disk_ : servers_;
  if (slot != nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                "expected at most one DiskTier and one RemoteTier below a cache that erases there, "
                "got two of the same kind");
  }
  slot = store;
  leaves_.push_back(store);
  return {};
}

Result<void> InvalidationPlace::use_disk() {
  {
    const std::lock_guard lock(disk_->mutex);
    recorded_ = disk_->recorded.insert(kind_).second;
  }
  if (!recorded_) {
    return fail(ErrorCode::kInvalidArgument,
                "another cache of this kind uses the disk tier in '" + disk_->folder +
                    "', and neither would notice what the other erases: share that cache, or give "
                    "each its own folder");
  }
  file_ = disk_->folder + "/" + kind_ + "-erased";
  if (!disk_->key_file.has_value()) return {};
  AFI_TRY(EncryptionKeys keys, EncryptionKeys::read(*disk_->key_file));
  encrypted_files_ = std::make_unique<EncryptedFiles>(files_, std::move(keys));
  return {};
}

Result<void> InvalidationPlace::use_servers(const Secret& root) {
  AFI_TRY(SharedCell* const list, shared_value(place_domain(kind_), "", root));
  log_ = std::make_unique<InvalidationLog>(*list, root);
  return {};
}

Tier& InvalidationPlace::shared_tier() { return *(servers_ != nullptr ? servers_ : disk_)->tier; }

Result<SharedCell*> InvalidationPlace::shared_value(std::string_view domain,
                                                    const std::string& name, const Secret& root) {
  if (servers_ == nullptr) {
    values_.push_back(std::make_unique<FileCell>(files(), disk_->folder + "/" + name));
    return values_.back().get();
  }
  const bool encrypted = servers_->key_file.has_value();
  FieldWriter fields(domain);
  fields.number("sealed", encrypted ? 1 : 0);
  const TierKey place{.entry_class = EntryClass::kAnswer,
                      .bytes = hmac_sha256(root, fields.message())};
  // The value outlives every entry that it is about.
  const Duration ttl = std::max<Duration>(2 * servers_->ttl, std::chrono::hours(1));
  values_.push_back(
      std::make_unique<RemoteCell>(servers_->shared->remote_tier(), place.bytes, ttl));
  if (!encrypted) return values_.back().get();
  AFI_TRY(EncryptionKeys keys, EncryptionKeys::read(*servers_->key_file));
  values_.push_back(std::make_unique<EncryptedCell>(*values_.back(), place, std::move(keys)));
  return values_.back().get();
}

}  // namespace afterimage::python
