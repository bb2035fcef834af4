// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "afterimage/reuse.h"
#include "caches/similarity/similar_answers.h"
#include "gateway/config/settings.h"

namespace afterimage {

/// Answers to similar questions as the settings say. nullptr: similarity.mode is off.
///
/// `model`: the embedder, if the settings name a file; nullptr: built in, or a server with `key`.
/// `reuse` has an answer cache; it and `clock` outlive the object.
///
/// Errors   kInvalidArgument: settings that make no embedder. kUnavailable: its server does not
///          answer.
[[nodiscard]] Result<std::unique_ptr<SimilarAnswers>> make_similar_answers(
    const SimilaritySettings& settings, std::unique_ptr<Embedder> model, const std::string& key,
    std::optional<SimilarStorage> storage, Reuse& reuse, const Clock& clock);

}  // namespace afterimage
