// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace afterimage {

/// What a technique made of a sample: it decided, it looked in vain, or it was not asked.
enum class TechniqueStatus : unsigned char { kSkip, kMiss, kHit };
/// "skip", "miss", "hit".
std::string_view to_string(TechniqueStatus status);

/// Techniques have the names of the first semantic cache (kv_cache, exact_text, semantic_text,
/// embedding:<layer>), and those that it did not have come behind them (canonical_text, near_text,
/// fusion).
struct Technique {
  std::string name;
  TechniqueStatus status = TechniqueStatus::kSkip;

  bool operator==(const Technique&) const = default;
};
using Techniques = std::vector<Technique>;

}  // namespace afterimage
