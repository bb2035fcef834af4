// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <vector>

#include "afterimage/sequence.h"

namespace afterimage {

/// Keys by which an eviction policy recognises prefixes that return: 64 bits for each prefix whose
/// length is a multiple of kKeyStep. They do not depend on where the tree happens to split nodes,
/// so a prefix evicted in pieces is recognised when it returns as one. Not an identity: a collision
/// only misleads the policy about an entry's age.
inline constexpr std::uint32_t kKeyStep = 16;

/// `chain` is the key of the longest whole prefix of sequence[0, start), or of the namespace. Sets
/// `keys` to the keys of the whole prefixes longer than `start` up to `end`, longest first.
/// Returns the key of the longest whole prefix of sequence[0, end). Cost: O(end - start).
std::uint64_t extend_keys(std::uint64_t chain, const Sequence& sequence, std::uint32_t start,
                          std::uint32_t end, std::vector<std::uint64_t>& keys);

}  // namespace afterimage
