// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "afterimage/answer_cache.h"
#include "afterimage/result.h"
#include "caches/answers/archived_answer.h"
#include "caches/similarity/similar_page.h"
#include "caches/similarity/similarity.h"
#include "foundation/platform/files.h"
#include "lab/experiment/spec.h"

namespace afterimage {

/// Name of the file in a cache folder.
inline constexpr const char* kRunCacheFile = "experiment.cache";

/// Answers, vectors and evidence that a run of an experiment saves for the next run.
///
/// Errors   run_cache_from: kCorruption: the bytes are not this, or their checksum is wrong.
/// Source   docs/lab/formats/experiment.md.
struct RunCache {
  std::string made_by;  // settings without which answers and vectors mean something else
  std::vector<SharedEvidence> evidence;  // of each similarity level
  struct Entry {
    ArchivedAnswer answer;
    std::vector<SimilarPage> candidates;  // of each match level: one question, or none
    bool operator==(const Entry&) const = default;
  };
  std::vector<Entry> entries;  // oldest first
  bool operator==(const RunCache&) const = default;
};
[[nodiscard]] std::vector<std::byte> to_bytes(const RunCache& cache);
[[nodiscard]] Result<RunCache> run_cache_from(std::span<const std::byte> bytes);

/// What a run took over from the cache folder.
struct ReusedCache {
  std::size_t answers = 0;
  std::size_t vectors = 0;  // questions that can be found by similarity
  Evidence evidence;
  std::string ignored;  // why a file was not used; empty: it was, or there was none
};
/// One sentence.
[[nodiscard]] std::string reused_text(const ReusedCache& reused, const std::string& folder);

/// Fills an empty cache and empty match levels with what an earlier run left in spec.cache_dir, which is
/// created if it is missing. A file that is damaged, or of another engine, encoder or layers, is
/// ignored as a whole, and replaced at the end of the run.
///
/// Errors   kInvalidArgument: a folder that is not a cache folder (cache_folder.h). kUnavailable.
Result<ReusedCache> load_run_cache(const ExperimentSpec& spec, Files& files, AnswerCache& cache,
                                   std::span<SimilarityLevel* const> levels);
/// Replaces the file at once: a run that is killed leaves that of the run before.
Result<void> save_run_cache(const ExperimentSpec& spec, Files& files, const AnswerCache& cache,
                            std::span<SimilarityLevel* const> levels);

}  // namespace afterimage
