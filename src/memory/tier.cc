// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/memory/tier.h"

#include <cstring>

namespace afterimage {

Result<std::shared_ptr<AlignedBytes>> AlignedBytes::create(std::size_t size, MemoryBudget& budget) {
  AFI_TRY(Reservation room, budget.reserve(Bytes(size)));
  auto* memory = static_cast<std::byte*>(
      ::operator new(size == 0 ? kAlignment : size, std::align_val_t(kAlignment), std::nothrow));
  if (memory == nullptr) {
    return fail(ErrorCode::kNoSpace,
                "the machine has no memory for " + std::to_string(size) + " bytes");
  }
  return std::shared_ptr<AlignedBytes>(new AlignedBytes(memory, size, std::move(room)));
}

std::size_t TierKeyHash::operator()(const TierKey& key) const noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, key.bytes.data(), sizeof word);
  return static_cast<std::size_t>(word + static_cast<std::uint64_t>(key.entry_class) *
                                             0x9E3779B97F4A7C15U);
}

std::size_t EntryMeta::form_bytes() const {
  std::size_t total = 0;
  for (const TensorForm& form : tensors) total += 8 + 8 * form.shape.rank();
  return total;
}

}  // namespace afterimage
