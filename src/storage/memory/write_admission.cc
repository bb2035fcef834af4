// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/write_admission.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace afterimage {
namespace {

constexpr double kWorthwhile = 1.0 / 32;
constexpr double kKept = 1.0 - 1.0 / 128;  // of the evidence, at each entry that is judged
constexpr std::size_t kGeneration = 32'768;

}  // namespace

WriteAdmission::Hash WriteAdmission::hash_of(const TierKey& entry) {
  Hash hash = 0;
  std::memcpy(&hash, entry.bytes.data(), sizeof hash);  // keys are digests
  return hash;
}

double WriteAdmission::rate() const { return (returns_ + 1) / (judged_ + 2); }

bool WriteAdmission::admit(std::span<const TierKey> chain) {
  const MutexLock lock(mutex_);
  bool continues = false;
  for (const TierKey& earlier : chain.first(chain.size() - 1)) {
    if (take_return(hash_of(earlier)) != nullptr) continues = true;
  }
  const Hash entry = hash_of(chain.back());
  if (Fate* const fate = take_return(entry); fate != nullptr) {
    fate->declined = false;
    return true;
  }
  const bool worthwhile = continues || rate() >= kWorthwhile;
  Watched& place = watched_[seen_ % kWatched];
  if (seen_++ >= kWatched) judge(place);
  place = {.entry = entry, .fate = {.declined = !worthwhile}};
  return worthwhile;
}

bool WriteAdmission::returned(const TierKey& entry) {
  const MutexLock lock(mutex_);
  Fate* const fate = take_return(hash_of(entry));
  return fate != nullptr && std::exchange(fate->declined, false);
}

void WriteAdmission::returned(std::span<const TierKey> chain) {
  const MutexLock lock(mutex_);
  for (const TierKey& entry : chain) take_return(hash_of(entry));
}

WriteAdmission::Fate* WriteAdmission::take_return(Hash entry) {
  const auto end = watched_.begin() + static_cast<std::ptrdiff_t>(std::min(seen_, kWatched));
  const auto watched =
      std::find_if(watched_.begin(), end, [&](const Watched& each) { return each.entry == entry; });
  if (watched != end) {
    watched->fate.has_returned = true;
    return &watched->fate;
  }
  for (Fates* generation : {&young_, &old_}) {
    const auto found = generation->find(entry);
    if (found == generation->end()) continue;
    if (!std::exchange(found->second.has_returned, true)) ++returns_;
    return &found->second;
  }
  return nullptr;
}

void WriteAdmission::judge(const Watched& oldest) {
  returns_ = returns_ * kKept + (oldest.fate.has_returned ? 1 : 0);
  judged_ = judged_ * kKept + 1;
  if (young_.size() >= kGeneration) {
    old_ = std::move(young_);
    young_ = {};
  }
  young_.insert_or_assign(oldest.entry, oldest.fate);
}

}  // namespace afterimage
