// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/tier.h"

#include <algorithm>
#include <cstring>

#include "foundation/platform/huge_pages.h"
#include "storage/memory/byte_pieces.h"
#include "storage/memory/tier_key_hash.h"

namespace afterimage {

Result<std::shared_ptr<AlignedBytes>> AlignedBytes::create(std::size_t size, MemoryBudget& budget) {
  AFI_TRY(Reservation room, budget.reserve(Bytes(size)));
  const std::align_val_t alignment{size < kHugePage ? kAlignment : kHugePage};
  auto* memory =
      static_cast<std::byte*>(::operator new(std::max(size, kAlignment), alignment, std::nothrow));
  if (memory == nullptr) {
    return fail(ErrorCode::kNoSpace,
                "the machine has no memory for " + std::to_string(size) + " bytes");
  }
  if (size >= kHugePage) ask_for_huge_pages(memory, size);
  return std::shared_ptr<AlignedBytes>(new AlignedBytes(memory, alignment, size, std::move(room)));
}

std::size_t TierKeyHash::operator()(const TierKey& key) const noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, key.bytes.data(), sizeof word);
  return static_cast<std::size_t>(word + static_cast<std::uint64_t>(key.entry_class) *
                                             0x9E3779B97F4A7C15U);
}

Result<void> Tier::put_pieces(const TierKey& key, const EntryMeta& meta, BytePieces pieces) {
  std::vector<std::byte> joined(size_of(pieces));
  copy_pieces(pieces, joined);
  return put(key, meta, joined);
}

std::vector<Result<std::optional<TierEntry>>> Tier::get_all(std::span<const TierKey> keys,
                                                            MemoryBudget& room) {
  std::vector<Result<std::optional<TierEntry>>> found;
  found.reserve(keys.size());
  for (const TierKey& key : keys) found.push_back(get(key, room));
  return found;
}

Result<EntryCount> Tier::erase_matching(const EntryFilter& /*filter*/) {
  return fail(ErrorCode::kUnavailable, "this kind of tier cannot list its entries");
}

std::size_t EntryMeta::form_bytes() const {
  std::size_t total = labels.size() * sizeof(EntryLabel);
  for (const TensorSpec& form : tensors) total += 8 + 8 * form.shape.rank();
  return total;
}

}  // namespace afterimage
