// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <unordered_set>

#include "afterimage/tensor.h"
#include "afterimage/tier.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// Puts into a tier what is not there yet: for keys that name content, where a second put would
/// only write the same again. Once, also while the first is on its way, and however many ask for it
/// at the same time.
///
/// Errors   None: what cannot be put is refused, and counted by the tier.
/// Threads  Any.
/// Cost     A look-up for what is there; tensors are packed only if they are put.
class PutOnce {
 public:
  enum class Outcome : unsigned char {
    kThere,    // or on its way, or another is putting it
    kPut,      //
    kRefused,  // by the tier
  };

  /// `tier` outlives the object.
  explicit PutOnce(Tier& tier) : tier_(tier) {}

  Outcome put(const TierKey& key, std::span<const TensorView> tensors, Duration cost);

 private:
  Tier& tier_;
  Mutex mutex_;
  std::unordered_set<TierKey, TierKeyHash> under_way_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
