// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/seen_requests.h"

#include <algorithm>
#include <cstring>

#include "foundation/crypto/sha256.h"

namespace afterimage {

bool SeenRequests::add(std::span<const std::byte> request) {
  const auto digest = hmac_sha256(key_, request);
  std::uint64_t print = 0;
  std::uint64_t place = 0;
  std::memcpy(&print, digest.data(), sizeof print);
  std::memcpy(&place, digest.data() + sizeof print, sizeof place);
  print = std::max<std::uint64_t>(print, 1);
  const MutexLock lock(mutex_);
  Set& set = sets_[place % kSets];
  auto* const found = std::ranges::find(set, print);
  const bool is_seen = found != set.end();
  std::shift_right(set.begin(), is_seen ? found + 1 : set.end(), 1);
  set.front() = print;
  return is_seen;
}

}  // namespace afterimage
