// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/put_once.h"

#include <utility>

#include "storage/memory/packed_tensors.h"

namespace afterimage {

PutOnce::Outcome PutOnce::put(const TierKey& key, std::span<const TensorView> tensors,
                              Duration cost, std::vector<EntryLabel> labels,
                              WriteAdmission* admission) {
  {
    const MutexLock lock(mutex_);
    if (!under_way_.insert(key).second) return Outcome::kThere;
  }
  Outcome outcome = Outcome::kThere;
  // In this order: an entry that stops being pending in between is then found by holds().
  if (tier_.is_pending(key) || tier_.holds(key)) {
    // There already.
  } else if (admission != nullptr && !admission->admit(key)) {
    outcome = Outcome::kDeclined;
  } else {
    PackedTensors packed = pack(tensors);
    const EntryMeta meta{
        .tensors = std::move(packed.forms), .cost = cost, .labels = std::move(labels)};
    outcome =
        tier_.put_pieces(key, meta, packed.pieces).has_value() ? Outcome::kPut : Outcome::kRefused;
  }
  const MutexLock lock(mutex_);
  under_way_.erase(key);
  return outcome;
}

}  // namespace afterimage
