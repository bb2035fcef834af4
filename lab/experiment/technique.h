// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace afterimage {

/// The result of a technique for a sample: it decided, it missed, or it was not used.
enum class TechniqueStatus : unsigned char { kSkip, kMiss, kHit };
/// "skip", "miss", "hit".
std::string_view to_string(TechniqueStatus status);

/// Techniques have the names of the first semantic cache (kv_cache, exact_text, semantic_text,
/// embedding:<layer>), followed by those it did not have (canonical_text, near_text, fusion).
struct Technique {
  std::string name;
  TechniqueStatus status = TechniqueStatus::kSkip;

  bool operator==(const Technique&) const = default;
};
using Techniques = std::vector<Technique>;

}  // namespace afterimage
