// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "lab/datasets/sample.h"

namespace afterimage {

/// Which text of a sample its answer is kept and looked up under.
enum class ChunkSource : unsigned char { kQuestion, kSemantic, kAnswer, kGroup, kImage, kCombined };
inline constexpr std::array kChunkSources{ChunkSource::kQuestion, ChunkSource::kSemantic,
                                          ChunkSource::kAnswer,   ChunkSource::kGroup,
                                          ChunkSource::kImage,    ChunkSource::kCombined};
/// "question", "semantic", …
std::string_view to_string(ChunkSource source);
std::optional<ChunkSource> chunk_source_named(std::string_view name);

/// question  The question itself.
/// semantic  The question's program, without the ids of objects in parentheses.
/// answer    The full answer, or the short one. It is what is asked for: a bound, not a cache.
/// group     The global and the local group.
/// image     "image-<id>": whatever is asked of a picture is one question.
/// combined  The program and the groups.
///
/// What is empty falls back to the question; Sample::chunk_override comes before all of them.
/// Threads  Any.
[[nodiscard]] std::string chunk_text(const Sample& sample, ChunkSource source);

/// "select:lamp | query:color".
[[nodiscard]] std::string program_text(const Sample& sample);

}  // namespace afterimage
