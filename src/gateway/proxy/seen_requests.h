// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/secret.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// Which requests this process has seen lately, as digests of 64 bits under a key that nobody else has:
/// enough to say how many equal an earlier one, and nothing of what they asked.
///
/// Memory   256 KiB, for the last 32,768 or so: four places for each of 8,192 sets, the oldest leaves.
/// Errors   A request passes for seen once in 2^62 times.
/// Threads  Any.
class SeenRequests {
 public:
  static constexpr std::size_t kSets = 8'192;
  static constexpr std::size_t kWays = 4;

  explicit SeenRequests(const Secret& key) : key_(key), sets_(kSets) {}
  /// True if the same bytes were added before and are not forgotten.
  bool add(std::span<const std::byte> request);

 private:
  using Set = std::array<std::uint64_t, kWays>;  // the newest first; 0: none

  const Secret key_;
  Mutex mutex_;
  std::vector<Set> sets_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
