// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lab/datasets/sample.h"

namespace afterimage {

/// Which text of a sample is the cache key of its answer.
enum class ChunkSource : unsigned char { kQuestion, kSemantic, kAnswer, kGroup, kImage, kCombined };
inline constexpr std::array kChunkSources{ChunkSource::kQuestion, ChunkSource::kSemantic,
                                          ChunkSource::kAnswer,   ChunkSource::kGroup,
                                          ChunkSource::kImage,    ChunkSource::kCombined};
/// "question", "semantic", …
std::string_view to_string(ChunkSource source);
std::optional<ChunkSource> chunk_source_named(std::string_view name);

/// question  The question itself.
/// semantic  The question's program, without object ids in parentheses.
/// answer    The full answer, or the short one. This is the expected output: a bound, not a cache.
/// group     The global and the local group.
/// image     "image-<id>": all questions about an image share one key.
/// combined  The program and the groups.
///
/// Empty text falls back to the question; Sample::chunk_override takes precedence over all.
/// Threads   Any.
[[nodiscard]] std::string chunk_text(const Sample& sample, ChunkSource source,
                                     std::int64_t window = 0);

/// "select:lamp | query:color".
[[nodiscard]] std::string program_text(const Sample& sample);

}  // namespace afterimage
