// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "afterimage/reuse.h"
#include "caches/similarity/similar_answers.h"
#include "gateway/config/settings.h"

namespace afterimage {

/// Models in this process, if the settings name files; nullptr: built in, a server, or none.
struct SimilarityModels {
  std::unique_ptr<Embedder> embedder;
  std::unique_ptr<Verifier> verifier;
  std::vector<std::byte> projection;  // of the embedder's vectors: ProjectedEmbedder; empty: none
};

/// API keys of the servers that the settings name; empty: none.
struct SimilarityKeys {
  std::string embedder;
  std::string verifier;
};

/// Answers to similar questions as the settings say. nullptr: similarity.mode is off.
///
/// `reuse` has an answer cache; it and `clock` outlive the object.
///
/// Errors   kInvalidArgument: settings that make no embedder. kUnavailable: its server does not
///          answer.
[[nodiscard]] Result<std::unique_ptr<SimilarAnswers>> make_similar_answers(
    const SimilaritySettings& settings, SimilarityModels models, const SimilarityKeys& keys,
    std::optional<SimilarStorage> storage, Reuse& reuse, const Clock& clock);

}  // namespace afterimage
