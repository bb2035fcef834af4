// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "afterimage/digest.h"
#include "afterimage/encoder_cache.h"
#include "afterimage/memory_budget.h"
#include "afterimage/tensor.h"
#include "afterimage/tier.h"
#include "afterimage/units.h"
#include "foundation/platform/mutex.h"
#include "storage/memory/load_or_compute.h"
#include "storage/memory/put_once.h"

namespace afterimage {

/// Encoder outputs in a tier below memory: kept when they are made, so that to evict one from
/// memory moves no byte, and found again by whoever would encode otherwise, also in a later
/// process.
///
/// Errors   None. What cannot be kept or read is encoded again, and counted.
/// Threads  Any.
class EncoderArchive {
 public:
  struct Loaded {
    EncoderOutput output;
    Duration cost{0};  // what encoding it took
  };

  /// All outlive the archive. `transfer` pays for what is on its way up; `quicker` knows when
  /// encoding is; nullptr: whatever is there is loaded.
  EncoderArchive(Tier& tier, MemoryBudget& transfer, LoadOrCompute* quicker = nullptr)
      : tier_(tier), kept_(tier), transfer_(transfer), quicker_(quicker) {}

  /// Nothing happens if the tier holds it already or it is on its way: one key, one content.
  void keep(const EncoderKey& key, std::span<const TensorView> tensors, Duration cost);
  /// nullopt: encode it. Whether it was there and declined, `choice` tells, if asked.
  std::optional<Loaded> load(const EncoderKey& key, LoadChoice* choice = nullptr);
  /// Loads it if it is there, though the tier believed a moment ago that it is not: others put,
  /// too.
  std::optional<Loaded> load_again(const EncoderKey& key);
  /// Under which name others find it.
  [[nodiscard]] static TierKey place(const EncoderKey& key) {
    return TierKey::of(EntryClass::kEncoderOutput, key);
  }
  [[nodiscard]] EncoderArchiveStats stats() const;

 private:
  [[nodiscard]] LoadStep step_of(const EncoderKey& key) const;
  std::optional<Loaded> get(const EncoderKey& key, const LoadStep& step, const LoadChoice& choice);

  Tier& tier_;
  PutOnce kept_;
  MemoryBudget& transfer_;
  LoadOrCompute* const quicker_;
  mutable Mutex mutex_;
  EncoderArchiveStats stats_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
