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

/// Encoder outputs in a tier below memory. Outputs are stored when they are encoded, or, if new ones
/// seldom return, when they are used again; so evicting one from memory moves no bytes. They are loaded
/// on a later miss, also in another process.
///
/// Errors   None. An output that cannot be stored or read is encoded again, and counted.
/// Threads  Any.
class EncoderArchive {
 public:
  struct Loaded {
    EncoderOutput output;
    Duration cost{0};  // time that encoding took
    std::vector<EntryLabel> labels;
  };

  /// All arguments outlive the archive. `transfer` is charged for outputs being loaded.
  /// `load_or_compute` decides whether loading is faster than encoding; nullptr: always load.
  /// `admission` decides whether a new output is worth a write; nullptr: each is.
  EncoderArchive(Tier& tier, MemoryBudget& transfer, LoadOrCompute* load_or_compute = nullptr,
                 WriteAdmission* admission = nullptr)
      : tier_(tier),
        kept_(tier),
        transfer_(transfer),
        load_or_compute_(load_or_compute),
        admission_(admission) {}

  /// Stores a new output. Does nothing if the tier holds it already or a put of it is pending.
  void keep(const EncoderKey& key, std::span<const TensorView> tensors, Duration cost,
            std::vector<EntryLabel> labels = {});
  /// An output in memory is used again. True: it was not worth a write when it was new; keep_returned().
  [[nodiscard]] bool returned(const EncoderKey& key) {
    return admission_ != nullptr && admission_->returned(place(key));
  }
  void keep_returned(const EncoderKey& key, std::span<const TensorView> tensors, Duration cost,
                     std::vector<EntryLabel> labels);
  /// nullopt: encode it. `choice`, if given, tells whether a stored output was declined.
  std::optional<Loaded> load(const EncoderKey& key, LoadChoice* choice = nullptr);
  /// Looks up again although the tier recorded the key as absent: another process may have stored
  /// it since.
  std::optional<Loaded> load_again(const EncoderKey& key);
  /// The tier key of an encoder output.
  [[nodiscard]] static TierKey place(const EncoderKey& key) {
    return TierKey::of(EntryClass::kEncoderOutput, key);
  }
  [[nodiscard]] EncoderArchiveStats stats() const;

 private:
  void put(const EncoderKey& key, std::span<const TensorView> tensors, Duration cost,
           std::vector<EntryLabel> labels, WriteAdmission* admission);
  [[nodiscard]] LoadStep step_of(const EncoderKey& key) const;
  std::optional<Loaded> get(const EncoderKey& key, const LoadStep& step, const LoadChoice& choice);

  Tier& tier_;
  PutOnce kept_;
  MemoryBudget& transfer_;
  LoadOrCompute* const load_or_compute_;
  WriteAdmission* const admission_;
  mutable Mutex mutex_;
  EncoderArchiveStats stats_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
