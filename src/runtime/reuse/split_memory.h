// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/engine.h"
#include "afterimage/identity.h"
#include "foundation/platform/mutex.h"
#include "foundation/types/digest_hash.h"

namespace afterimage {

/// What is known about splitting media: the parts of recent items, so that an item whose parts are
/// all cached is not decoded again; and, by model, whether its parts are exact.
///
/// Unit     Holds at most kMaxParts parts, 40 bytes each.
/// Threads  Any.
class SplitMemory {
 public:
  static constexpr std::size_t kMaxParts = 100'000;

  enum class Verdict : unsigned char { kUnknown, kExact, kInexact };

  /// By the key of the whole item, which names content, recipe and model. nullopt: not known.
  [[nodiscard]] std::optional<std::vector<MediaPart>> find(const EncoderKey& item) const {
    const MutexLock lock(mutex_);
    const auto it = parts_.find(item);
    if (it == parts_.end()) return std::nullopt;
    return it->second;
  }
  void remember(const EncoderKey& item, const std::vector<MediaPart>& parts) {
    if (parts.size() > kMaxParts) return;
    const MutexLock lock(mutex_);
    if (!parts_.emplace(item, parts).second) return;
    count_ += parts.size();
    if (count_ <= kMaxParts) return;
    parts_.clear();  // they are found out again by decoding
    parts_.emplace(item, parts);
    count_ = parts.size();
  }
  void forget_parts() {
    const MutexLock lock(mutex_);
    parts_.clear();
    count_ = 0;
  }

  [[nodiscard]] Verdict verdict(const ModelIdentity& model) const {
    const MutexLock lock(mutex_);
    const auto it = verdicts_.find(name_of(model));
    return it == verdicts_.end() ? Verdict::kUnknown : it->second;
  }
  /// kInexact is final: one wrong bit outweighs any number of right ones.
  void judge(const ModelIdentity& model, Verdict verdict) {
    const MutexLock lock(mutex_);
    Verdict& known = verdicts_[name_of(model)];
    if (known != Verdict::kInexact) known = verdict;
  }

 private:
  static std::string name_of(const ModelIdentity& model) {
    return model.model + '\n' + model.weights_epoch + '\n' + model.encoder + '\n' + model.adapter;
  }

  mutable Mutex mutex_;
  boost::unordered_flat_map<EncoderKey, std::vector<MediaPart>, DigestHash> parts_
      AFI_GUARDED_BY(mutex_);
  std::size_t count_ AFI_GUARDED_BY(mutex_) = 0;
  boost::unordered_flat_map<std::string, Verdict> verdicts_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
