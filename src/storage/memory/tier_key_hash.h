// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>

#include "afterimage/tier.h"

namespace afterimage {

/// Keys are digests and already uniform; the class is mixed in. Equality compares everything.
struct TierKeyHash {
  using is_avalanching = void;
  std::size_t operator()(const TierKey& key) const noexcept;
};

}  // namespace afterimage
