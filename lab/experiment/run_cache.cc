// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/run_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "caches/identity/field_reader.h"
#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"
#include "lab/experiment/cache_folder.h"

namespace afterimage {
namespace {

constexpr std::string_view kDomain = "afterimage/experiment-cache/1";
constexpr Bytes kMostBytes = 4_GiB;
constexpr std::size_t kBatch = 1000;  // entries listed at once
constexpr std::uint64_t kMostLevels = 16;

std::string path_of(const ExperimentSpec& spec) { return spec.cache_dir + "/" + kRunCacheFile; }

/// Answers are the engine's, or the data set's; vectors those of an encoder, a hook and its layers.
/// Everything else that matters is in the scope of each answer.
std::string made_by(const ExperimentSpec& spec) {
  std::string all = fmt::format("engine {}; data {} {} {}; encoder {}; hook {}; fusion {}",
                                spec.engine, spec.dataset, spec.data, spec.dataset_config,
                                spec.index_encoder, spec.embedding_hook, spec.enable_fusion_cache);
  for (const std::string& layer : spec.embedding_layers) all += "; layer " + layer;
  return all;
}

std::unexpected<Error> not_valid(std::span<const std::byte> bytes) {
  return fail(ErrorCode::kCorruption,
              fmt::format("{} bytes are not the cache of an experiment, or damaged", bytes.size()));
}

std::span<const std::byte> bytes_in(FieldReader& fields, std::string_view name) {
  return std::as_bytes(std::span(fields.value('B', name)));
}

/// Ruins the message if the part is not what the parser expects.
template <typename Parsed>
Parsed part(FieldReader& fields, std::string_view name,
            Result<Parsed> (*parse)(std::span<const std::byte>)) {
  auto parsed = parse(bytes_in(fields, name));
  if (!parsed.has_value()) fields.ruin();
  return parsed.has_value() ? *std::move(parsed) : Parsed();
}

std::vector<std::string> names_of(const SimilarityLevel& level) {
  std::vector<std::string> names;
  for (const SimilarityLayer& layer : level.layers()) names.push_back(layer.name);
  return names;
}

/// Whether the file is of these match levels.
bool fits(const RunCache& stored, std::span<SimilarityLevel* const> levels) {
  if (stored.evidence.size() != levels.size()) return false;
  return std::ranges::all_of(stored.entries, [&](const RunCache::Entry& entry) {
    for (std::size_t i = 0; i < levels.size(); ++i) {
      if (entry.candidates[i].layers != names_of(*levels[i])) return false;
      for (const SimilarCandidate& one : entry.candidates[i].candidates) {
        if (!levels[i]->accepts(one.vectors)) return false;
      }
    }
    return true;
  });
}

/// nullopt: no run has left anything.
Result<std::optional<RunCache>> read_run_cache(const ExperimentSpec& spec, const Files& files) {
  const auto bytes = files.read(path_of(spec), kMostBytes);
  if (!bytes.has_value()) {
    if (bytes.error().code == ErrorCode::kNotFound) return std::nullopt;
    return std::unexpected(bytes.error());
  }
  AFI_TRY(RunCache stored, run_cache_from(*bytes));
  if (stored.made_by != made_by(spec)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("it is of another experiment ({}); this one is ({})", stored.made_by,
                            made_by(spec)));
  }
  return stored;
}

}  // namespace

std::vector<std::byte> to_bytes(const RunCache& cache) {
  FieldWriter fields(kDomain);
  fields.text("made_by", cache.made_by).number("rungs", cache.evidence.size());
  for (const SharedEvidence& evidence : cache.evidence) {
    fields.bytes("evidence", to_bytes(evidence));
  }
  fields.number("answers", cache.entries.size());
  for (const RunCache::Entry& entry : cache.entries) {
    fields.bytes("answer", to_bytes(entry.answer));
    for (const SimilarPage& page : entry.candidates) fields.bytes("question", to_bytes(page));
  }
  std::vector<std::byte> bytes(fields.message().begin(), fields.message().end());
  const auto checksum = sha256(fields.message());
  bytes.insert(bytes.end(), checksum.begin(), checksum.end());
  return bytes;
}

Result<RunCache> run_cache_from(std::span<const std::byte> bytes) {
  if (bytes.size() < kDigestBytes) return not_valid(bytes);
  const auto message = bytes.first(bytes.size() - kDigestBytes);
  if (!std::ranges::equal(sha256(message), bytes.last(kDigestBytes))) return not_valid(bytes);
  FieldReader fields(message);
  fields.domain(kDomain);
  RunCache cache{.made_by = fields.text("made_by"), .evidence = {}, .entries = {}};
  for (auto levels = fields.number("rungs", kMostLevels); levels > 0 && fields.is_whole();
       --levels) {
    cache.evidence.push_back(part(fields, "evidence", &shared_evidence_from));
  }
  for (auto answers = fields.number("answers"); answers > 0 && fields.is_whole(); --answers) {
    RunCache::Entry& entry = cache.entries.emplace_back();
    entry.answer = part(fields, "answer", &archived_answer_from);
    while (entry.candidates.size() < cache.evidence.size() && fields.is_whole()) {
      entry.candidates.push_back(part(fields, "question", &similar_page_from));
      if (entry.candidates.back().candidates.size() > 1) fields.ruin();
    }
  }
  if (!fields.is_done()) return not_valid(bytes);
  return cache;
}

std::string reused_text(const ReusedCache& reused, const std::string& folder) {
  if (reused.answers == 0) {
    return fmt::format("the caches start empty; the next run starts with what '{}' keeps of this",
                       folder);
  }
  return fmt::format(
      "the caches start with {} answers, {} questions with vectors and {} comparisons ({} right) "
      "from '{}'",
      reused.answers, reused.vectors, reused.evidence.seen(), reused.evidence.right, folder);
}

Result<ReusedCache> load_run_cache(const ExperimentSpec& spec, Files& files, AnswerCache& cache,
                                   std::span<SimilarityLevel* const> levels) {
  AFI_TRY_VOID(make_cache_folder(spec.cache_dir, files));
  ReusedCache reused;
  auto stored = read_run_cache(spec, files);
  if (stored.has_value() && stored->has_value() && !fits(**stored, levels)) {
    stored = fail(ErrorCode::kInvalidArgument, "its vectors are of other layers or dimensions");
  }
  if (!stored.has_value()) {
    reused.ignored = fmt::format("'{}' is not used, and will be replaced: {}", path_of(spec),
                                 stored.error().message);
    return reused;
  }
  if (!stored->has_value()) return reused;
  for (RunCache::Entry& entry : (*stored)->entries) {
    Question question(entry.answer.scope, entry.answer.question);
    AFI_TRY_VOID(cache.insert(question, entry.answer.answer, {.cost = entry.answer.cost}));
    ++reused.answers;
    bool has_vectors = false;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      for (const SimilarCandidate& one : entry.candidates[i].candidates) {
        AFI_TRY(has_vectors, levels[i]->restore(entry.answer.scope, one));
      }
    }
    reused.vectors += has_vectors ? 1 : 0;
  }
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const EvidenceTable& table = (*stored)->evidence[i].table;
    levels[i]->take_evidence(table);
    reused.evidence.right += table.total().right;
    reused.evidence.wrong += table.total().wrong;
  }
  return reused;
}

Result<void> save_run_cache(const ExperimentSpec& spec, Files& files, const AnswerCache& cache,
                            std::span<SimilarityLevel* const> levels) {
  RunCache kept{.made_by = made_by(spec), .evidence = {}, .entries = {}};
  for (SimilarityLevel* const level : levels) {
    kept.evidence.push_back({.epoch = 0, .table = level->evidence()});
  }
  for (auto batch = cache.entries({}, kBatch); !batch.empty();
       batch = cache.entries({}, kBatch, batch.back().id)) {
    for (const AnswerEntry& entry : batch) {
      Question question(entry.scope, entry.question);
      AnswerLookup found = cache.peek(question, {.serve = MatchLevel::kExact});
      if (!found.answer.has_value()) continue;
      RunCache::Entry& one = kept.entries.emplace_back();
      one.answer = {.scope = entry.scope,
                    .question = entry.question,
                    .cost = found.saved,
                    .answer = *std::move(found.answer)};
      for (SimilarityLevel* const level : levels) {
        SimilarPage& page = one.candidates.emplace_back();
        page.layers = names_of(*level);
        if (auto candidate = level->candidate(entry.scope, entry.question)) {
          page.candidates.push_back(*std::move(candidate));
        }
      }
    }
  }
  return files.replace(path_of(spec), to_bytes(kept));
}

}  // namespace afterimage
