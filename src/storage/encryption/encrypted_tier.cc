// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/encrypted_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "foundation/platform/mutex.h"
#include "storage/encryption/encrypted_entry.h"
#include "storage/memory/byte_pieces.h"
#include "storage/memory/tier_key_hash.h"

namespace afterimage {

struct EncryptedTier::State {
  State(Tier& its_tier, EncryptionKeys its_keys, MemoryBudget& its_memory)
      : tier(its_tier), keys(std::move(its_keys)), memory(its_memory) {}

  /// Most foreign entries (other key, or not encrypted) to remember; beyond, they are read again.
  static constexpr std::size_t kMostForeign = 65'536;
  std::unexpected<Error> refuse(ErrorCode code, std::string message);
  std::optional<TierEntry> open(const TierKey& key, TierEntry encrypted);
  void record_unopened(const TierKey& key, DecryptStatus state);
  [[nodiscard]] bool is_foreign(const TierKey& key) const;

  Tier& tier;
  const EncryptionKeys keys;
  MemoryBudget& memory;
  mutable Mutex mutex;
  std::uint64_t refused AFI_GUARDED_BY(mutex) = 0;    // puts refused before the wrapped tier
  std::uint64_t unopened AFI_GUARDED_BY(mutex) = 0;   // hits there that are misses here
  std::uint64_t removed AFI_GUARDED_BY(mutex) = 0;    // damaged entries removed by this tier
  std::uint64_t other_key AFI_GUARDED_BY(mutex) = 0;  // of the unopened ones
  std::uint64_t not_encrypted AFI_GUARDED_BY(mutex) = 0;
  std::unordered_set<TierKey, TierKeyHash> foreign AFI_GUARDED_BY(mutex);
};

EncryptedTier::EncryptedTier(Tier& tier, EncryptionKeys keys, MemoryBudget& memory)
    : state_(std::make_unique<State>(tier, std::move(keys), memory)) {}

EncryptedTier::~EncryptedTier() = default;

Result<void> EncryptedTier::erase(const TierKey& key) { return state_->tier.erase(key); }

Result<EntryCount> EncryptedTier::erase_matching(const EntryFilter& filter) {
  return state_->tier.erase_matching(filter);
}

Result<void> EncryptedTier::flush() { return state_->tier.flush(); }

void EncryptedTier::probe(std::span<const TierKey> keys) { state_->tier.probe(keys); }

void EncryptedTier::invalidate_negative(std::span<const TierKey> keys) {
  state_->tier.invalidate_negative(keys);
}

std::size_t EncryptedTier::places() const { return state_->tier.places(); }

bool EncryptedTier::is_pending(const TierKey& key) const { return state_->tier.is_pending(key); }

std::unexpected<Error> EncryptedTier::State::refuse(ErrorCode code, std::string message) {
  const MutexLock lock(mutex);
  ++refused;
  return fail(code, std::move(message));
}

Result<void> EncryptedTier::put_pieces(const TierKey& key, const EntryMeta& meta,
                                       BytePieces pieces) {
  if (meta.form_bytes() > EntryMeta::kMaxFormBytes) {
    return state_->refuse(ErrorCode::kLimitExceeded,
                          fmt::format("{} bytes of tensor specs; at most {} are allowed",
                                      meta.form_bytes(), EntryMeta::kMaxFormBytes));
  }
  const auto encrypted =
      AlignedBytes::create(encrypted_size(meta, size_of(pieces)), state_->memory);
  if (!encrypted.has_value()) {
    return state_->refuse(encrypted.error().code, encrypted.error().message);
  }
  const auto done = encrypt_entry(state_->keys, key, meta, pieces, (*encrypted)->bytes());
  if (!done.has_value()) return state_->refuse(done.error().code, done.error().message);
  // Specs and cost are encrypted. The cost is also stored in the clear for load-or-compute
  // decisions; so are the labels, keyed hashes by which the entry is found when it is to be erased.
  AFI_TRY_VOID(
      state_->tier.put(key, {.cost = meta.cost, .labels = meta.labels}, (*encrypted)->bytes()));
  const MutexLock lock(state_->mutex);
  state_->foreign.erase(key);
  return {};
}

Result<std::optional<TierEntry>> EncryptedTier::get(const TierKey& key, MemoryBudget& room) {
  AFI_TRY(std::optional<TierEntry> encrypted, state_->tier.get(key, room));
  if (!encrypted.has_value()) return std::nullopt;
  return state_->open(key, *std::move(encrypted));
}

std::vector<Result<std::optional<TierEntry>>> EncryptedTier::get_all(std::span<const TierKey> keys,
                                                                     MemoryBudget& room) {
  auto all = state_->tier.get_all(keys, room);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].has_value() || !all[i]->has_value()) continue;
    all[i] = state_->open(keys[i], **std::exchange(all[i], std::optional<TierEntry>()));
  }
  return all;
}

std::optional<TierEntry> EncryptedTier::State::open(const TierKey& key, TierEntry encrypted) {
  // In place: the copy is ours alone.
  const auto begin = encrypted.bytes.data() - std::as_const(*encrypted.memory).bytes().data();
  const auto body = encrypted.memory->bytes()
                        .subspan(static_cast<std::size_t>(begin), encrypted.bytes.size())
                        .subspan(std::min(encrypted.bytes.size(), kEncryptionHeader));
  DecryptedEntry entry = decrypt_entry(keys, key, encrypted.bytes, body);
  if (entry.state != DecryptStatus::kOpened) {
    record_unopened(key, entry.state);
    return std::nullopt;
  }
  entry.meta.labels = std::move(encrypted.meta.labels);
  return TierEntry{.meta = std::move(entry.meta),
                   .bytes = body.subspan(entry.bytes_begin),
                   .memory = std::move(encrypted.memory)};
}

void EncryptedTier::State::record_unopened(const TierKey& key, DecryptStatus state) {
  if (state == DecryptStatus::kDamaged) static_cast<void>(tier.erase(key));
  const bool replaced = tier.is_pending(key);
  const MutexLock lock(mutex);
  ++unopened;
  if (state == DecryptStatus::kDamaged) {
    ++removed;
    return;
  }
  ++(state == DecryptStatus::kOtherKey ? other_key : not_encrypted);
  if (replaced) return;
  if (foreign.size() >= kMostForeign) foreign.clear();
  foreign.insert(key);
}

bool EncryptedTier::State::is_foreign(const TierKey& key) const {
  const MutexLock lock(mutex);
  return foreign.contains(key);
}

bool EncryptedTier::may_contain(const TierKey& key) const {
  return state_->tier.may_contain(key) && !state_->is_foreign(key);
}

bool EncryptedTier::holds(const TierKey& key) const {
  return state_->tier.holds(key) && !state_->is_foreign(key);
}

std::optional<EntryMetadata> EncryptedTier::metadata(const TierKey& key) const {
  if (state_->is_foreign(key)) return std::nullopt;
  return state_->tier.metadata(key);
}

TierStats EncryptedTier::stats() const {
  TierStats stats = state_->tier.stats();
  const MutexLock lock(state_->mutex);
  stats.refused += state_->refused;
  stats.hits -= std::min(stats.hits, state_->unopened);
  stats.misses += state_->unopened;
  stats.damaged += state_->unopened;
  stats.erased -= std::min(stats.erased, state_->removed);
  if (stats.degraded_reason.empty() && state_->other_key > 0) {
    stats.degraded_reason = fmt::format(
        "{} entries are encrypted under another key and cannot be read: if it is an old key, add "
        "it to the list of keys; otherwise they are replaced over time",
        state_->other_key);
  } else if (stats.degraded_reason.empty() && state_->not_encrypted > 0) {
    stats.degraded_reason = fmt::format(
        "{} entries were stored before encryption was enabled and are not read: purge the folder "
        "if their plaintext must not stay on disk",
        state_->not_encrypted);
  }
  return stats;
}

}  // namespace afterimage
