// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/remote/presence_cache.h"

#include <algorithm>
#include <utility>

namespace afterimage {

void PresenceCache::note(const TierKey& key, bool present, Duration until) {
  if (young_.size() >= half_ && !young_.contains(key)) old_ = std::exchange(young_, {});
  old_.erase(key);
  young_[key] = {.present = present, .until = until};
}

void PresenceCache::forget(const TierKey& key) {
  young_.erase(key);
  old_.erase(key);
}

std::optional<bool> PresenceCache::present(const TierKey& key, Duration now) const {
  for (const Map* map : {&young_, &old_}) {
    const auto known = map->find(key);
    if (known != map->end() && now < known->second.until) return known->second.present;
  }
  return std::nullopt;
}

std::size_t PresenceCache::count_present() const {
  const auto is_present = [](const auto& known) { return known.second.present; };
  return static_cast<std::size_t>(std::ranges::count_if(young_, is_present) +
                                  std::ranges::count_if(old_, is_present));
}

}  // namespace afterimage
