// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <vector>

#include "afterimage/sequence.h"

namespace afterimage {

/// By what an eviction policy knows prefixes again: 64 bits for each prefix of a whole number of
/// steps. Where a tree cuts its nodes is chance; the steps are not, so what was evicted in pieces
/// is known again when it returns in one. Not an identity: whoever guesses a collision confuses a
/// policy about an entry's age, and nothing else.
inline constexpr std::uint32_t kKeyStep = 16;

/// `chain` is the key of the longest whole prefix of sequence[0, start), or its namespace's. Sets
/// `keys` to those of the whole prefixes longer than `start` up to `end`, the longest first.
/// Returns the key of the longest whole prefix of sequence[0, end). Cost: O(end - start).
std::uint64_t extend_keys(std::uint64_t chain, const Sequence& sequence, std::uint32_t start,
                          std::uint32_t end, std::vector<std::uint64_t>& keys);

}  // namespace afterimage
