// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/encryption/encrypted_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace afterimage {

std::unexpected<Error> EncryptedTier::refuse(ErrorCode code, std::string message) {
  const MutexLock lock(mutex_);
  ++refused_;
  return fail(code, std::move(message));
}

Result<void> EncryptedTier::put(const TierKey& key, const EntryMeta& meta,
                                std::span<const std::byte> bytes) {
  if (meta.form_bytes() > EntryMeta::kMaxFormBytes) {
    return refuse(ErrorCode::kLimitExceeded,
                  fmt::format("{} bytes of tensor specs; at most {} are allowed", meta.form_bytes(),
                              EntryMeta::kMaxFormBytes));
  }
  const auto encrypted = AlignedBytes::create(encrypted_size(meta, bytes.size()), memory_);
  if (!encrypted.has_value()) return refuse(encrypted.error().code, encrypted.error().message);
  const auto done = encrypt_entry(keys_, key, meta, bytes, (*encrypted)->bytes());
  if (!done.has_value()) return refuse(done.error().code, done.error().message);
  // Specs and cost are encrypted. The cost is also stored in the clear for load-or-compute
  // decisions.
  AFI_TRY_VOID(tier_.put(key, {.cost = meta.cost}, (*encrypted)->bytes()));
  const MutexLock lock(mutex_);
  foreign_.erase(key);
  return {};
}

Result<std::optional<TierEntry>> EncryptedTier::get(const TierKey& key, MemoryBudget& room) {
  AFI_TRY(const std::optional<TierEntry> encrypted, tier_.get(key, room));
  if (!encrypted.has_value()) return std::nullopt;
  return open(key, *encrypted, room);
}

std::vector<Result<std::optional<TierEntry>>> EncryptedTier::get_all(std::span<const TierKey> keys,
                                                                     MemoryBudget& room) {
  auto all = tier_.get_all(keys, room);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].has_value() || !all[i]->has_value()) continue;
    // Frees each encrypted copy before the next entry is decrypted.
    const TierEntry encrypted = **std::exchange(all[i], std::optional<TierEntry>());
    all[i] = open(keys[i], encrypted, room);
  }
  return all;
}

Result<std::optional<TierEntry>> EncryptedTier::open(const TierKey& key, const TierEntry& encrypted,
                                                     MemoryBudget& room) {
  const std::size_t size = encrypted.bytes.size();
  const auto opened =
      AlignedBytes::create(size < kEncryptionHeader ? 0 : size - kEncryptionHeader, room);
  if (!opened.has_value()) {
    const MutexLock lock(mutex_);
    ++without_room_;
    return std::unexpected(opened.error());
  }
  OpenedEntry entry = open_entry(keys_, key, encrypted.bytes, (*opened)->bytes());
  if (entry.state != SealState::kOpened) {
    record_unopened(key, entry.state);
    return std::nullopt;
  }
  return TierEntry{.meta = std::move(entry.meta),
                   .bytes = (*opened)->bytes().subspan(entry.bytes_begin),
                   .memory = *opened};
}

void EncryptedTier::record_unopened(const TierKey& key, SealState state) {
  if (state == SealState::kDamaged) static_cast<void>(tier_.erase(key));
  const bool replaced = tier_.is_pending(key);
  const MutexLock lock(mutex_);
  ++unopened_;
  if (state == SealState::kDamaged) {
    ++removed_;
    return;
  }
  ++(state == SealState::kOtherKey ? other_key_ : not_encrypted_);
  if (replaced) return;
  if (foreign_.size() >= kMostForeign) foreign_.clear();
  foreign_.insert(key);
}

bool EncryptedTier::is_foreign(const TierKey& key) const {
  const MutexLock lock(mutex_);
  return foreign_.contains(key);
}

bool EncryptedTier::may_contain(const TierKey& key) const {
  return tier_.may_contain(key) && !is_foreign(key);
}

bool EncryptedTier::holds(const TierKey& key) const { return tier_.holds(key) && !is_foreign(key); }

std::optional<EntryMetadata> EncryptedTier::metadata(const TierKey& key) const {
  if (is_foreign(key)) return std::nullopt;
  return tier_.metadata(key);
}

TierStats EncryptedTier::stats() const {
  TierStats stats = tier_.stats();
  const MutexLock lock(mutex_);
  stats.refused += refused_;
  stats.hits -= std::min(stats.hits, unopened_ + without_room_);
  stats.misses += unopened_;
  stats.damaged += unopened_;
  stats.erased -= std::min(stats.erased, removed_);
  if (stats.degraded_reason.empty() && other_key_ > 0) {
    stats.degraded_reason = fmt::format(
        "{} entries are encrypted under another key and cannot be read: if it is an old key, add "
        "it to the list of keys; otherwise they are replaced over time",
        other_key_);
  } else if (stats.degraded_reason.empty() && not_encrypted_ > 0) {
    stats.degraded_reason = fmt::format(
        "{} entries were stored before encryption was enabled and are not read: purge the folder "
        "if their plaintext must not stay on disk",
        not_encrypted_);
  }
  return stats;
}

}  // namespace afterimage
