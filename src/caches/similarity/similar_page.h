// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "caches/similarity/acceptance.h"
#include "caches/similarity/embedder.h"

namespace afterimage {

/// A question that may be found by similarity, with what is known about matches with it.
struct SimilarCandidate {
  std::string question;
  std::vector<Vector> vectors;  // by layer
  EvidenceTable evidence;
  bool operator==(const SimilarCandidate&) const = default;
};

/// Some candidates of one scope, as a tier stores them.
///
/// Errors   kCorruption: the bytes are not a page.
/// Source   docs/formats/similar.md.
struct SimilarPage {
  std::vector<std::string> layers;  // names, with the embedder's
  /// The evidence's: see SharedEvidence. Right answers of an earlier epoch no longer count.
  std::uint64_t epoch = 0;
  std::vector<SimilarCandidate> candidates;
  bool operator==(const SimilarPage&) const = default;
};
[[nodiscard]] std::vector<std::byte> to_bytes(const SimilarPage& page);
[[nodiscard]] Result<SimilarPage> similar_page_from(std::span<const std::byte> bytes);

/// Evidence of all scopes, as processes share it.
///
/// A wrong answer that was served begins a new epoch: everything that was learnt before is void.
///
/// Errors   kCorruption: the bytes are not this, or their checksum is wrong.
struct SharedEvidence {
  std::uint64_t epoch = 0;
  EvidenceTable table;
  bool operator==(const SharedEvidence&) const = default;
};
[[nodiscard]] std::vector<std::byte> to_bytes(const SharedEvidence& evidence);
[[nodiscard]] Result<SharedEvidence> shared_evidence_from(std::span<const std::byte> bytes);

}  // namespace afterimage
