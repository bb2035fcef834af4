// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

#include "foundation/platform/random.h"

namespace afterimage::testing {

/// Runs `body` with seeds 1 … count, and stops at the first failure with the line that replays it.
/// AFTERIMAGE_TEST_SEED=n runs seed n only.
inline void for_each_seed(std::uint64_t count, const std::function<void(Rng&)>& body) {
  std::uint64_t first = 1;
  std::uint64_t last = count;
  if (const char* chosen = std::getenv("AFTERIMAGE_TEST_SEED"); chosen != nullptr) {
    first = last = std::stoull(chosen);
  }
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    Rng rng(seed);
    SCOPED_TRACE("replay with AFTERIMAGE_TEST_SEED=" + std::to_string(seed));
    body(rng);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace afterimage::testing
