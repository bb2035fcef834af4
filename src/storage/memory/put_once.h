// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <unordered_set>
#include <vector>

#include "afterimage/tensor.h"
#include "afterimage/tier.h"
#include "foundation/platform/mutex.h"
#include "storage/memory/tier_key_hash.h"
#include "storage/memory/write_admission.h"

namespace afterimage {

/// Puts entries into a tier unless they are already there. For keys that name content, where a
/// second put would write the same bytes again. Each entry is put once, even if several threads put
/// it at the same time or the first put has not completed.
///
/// Errors   None: a failed put is kRefused, and the tier counts it.
/// Threads  Any.
/// Cost     A look-up if the entry exists; tensors are packed only if they are put.
class PutOnce {
 public:
  enum class Outcome : unsigned char {
    kThere,     // already stored, pending, or being put by another thread
    kPut,       // put by this call
    kRefused,   // refused by the tier
    kDeclined,  // by `admission`
  };

  /// `tier` must outlive the object.
  explicit PutOnce(Tier& tier) : tier_(tier) {}

  /// `admission`: asked if the entry is not there yet; nullptr: everything is put.
  Outcome put(const TierKey& key, std::span<const TensorView> tensors, Duration cost,
              std::vector<EntryLabel> labels = {}, WriteAdmission* admission = nullptr);

 private:
  Tier& tier_;
  Mutex mutex_;
  std::unordered_set<TierKey, TierKeyHash> under_way_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
