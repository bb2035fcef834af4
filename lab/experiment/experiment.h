// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "afterimage/answer.h"
#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "caches/similarity/embedder.h"
#include "lab/datasets/image_roots.h"
#include "lab/datasets/sample.h"
#include "lab/experiment/run_cache.h"
#include "lab/experiment/sample_engine.h"
#include "lab/experiment/spec.h"
#include "lab/experiment/technique.h"

namespace afterimage {

/// The outcome of a sample.
enum class Decision : unsigned char {
  kServed,   // from the cache, without asking the engine
  kMatched,  // a cached answer matched and the engine answered anyway: a dry run
  kMissed,   // the engine answered
  kFailed,   // the engine failed; nothing was cached
};

struct SampleResult {
  std::size_t sample = 0;  // its index, from 0
  std::string prompt;
  std::string chunk_text;
  Decision decision = Decision::kMissed;
  std::string source;     // of the match: "text:exact", "embedding:prompt", …
  std::string candidate;  // key of the cached answer
  double score = 0;       // 1: the same words
  Duration latency{0};    // from look-up to answer
  std::string response;
  std::string error;  // why there is no response
  std::optional<bool> is_correct;
  bool is_wrong = false;  // served or matched, and not what the engine answers itself
  Techniques techniques;
};

struct SourceTotals {
  std::uint64_t count = 0;
  std::uint64_t wrong = 0;
  Duration latency{0};  // total
};

struct ExperimentTotals {
  std::uint64_t prompts = 0;
  std::uint64_t served = 0;
  std::uint64_t matched_not_used = 0;
  std::uint64_t missed = 0;
  std::uint64_t failed = 0;
  std::uint64_t wrong_served = 0;
  std::uint64_t wrong_matched = 0;  // would have been wrong if served
  std::uint64_t judged = 0;         // samples with a reference
  std::uint64_t correct = 0;
  Duration latency{0};  // sums
  Duration latency_served{0};
  Duration latency_other{0};
  std::uint64_t expected = 0;                   // samples that name the technique they test
  std::uint64_t expected_met = 0;               // of those, decided by that technique
  std::map<std::string, SourceTotals> sources;  // by source of served or matched answers
  std::map<std::string, std::map<TechniqueStatus, std::uint64_t>> techniques;
  std::vector<std::string> technique_order;
};

struct ExperimentReport {
  std::vector<SampleResult> samples;
  ExperimentTotals totals;
  Duration wall_time{0};
  std::optional<ReusedCache> reused;  // of the cache folder; nullopt: none is kept
};

/// `results` belong to `samples` by their indices.
[[nodiscard]] ExperimentTotals totals_of(std::span<const Sample> samples,
                                         std::span<const SampleResult> results);

/// Repetition of keys in the data, before any look-up.
struct KeyUse {
  std::size_t prompts = 0;
  std::size_t keys = 0;
  std::size_t repeated = 0;                              // keys of at least two prompts
  std::vector<std::pair<std::string, std::size_t>> top;  // at most five, most frequent first
};
[[nodiscard]] KeyUse key_use(std::span<const Sample> samples, const ExperimentSpec& spec);

/// Remarks to show before the numbers: that the model is not run, that a layer gets no vectors,
/// that a key contains the answer.
[[nodiscard]] std::vector<std::string> remarks_on(const ExperimentSpec& spec, CacheMode mode,
                                                  const SampleEngine& engine);

struct ExperimentWorld {
  const ImageRoots& images;
  const Clock& clock;
  SampleEngine& engine;
  Embedder* text_encoder = nullptr;  // of the match level "text"; nullptr: hashed n-grams
  Files* cache_files = nullptr;      // of spec.cache_dir, kept between runs; nullptr: not kept
  /// Results of the first samples, from a run that was stopped: the engine isn't asked for them
  /// again. `on_sample` isn't called for them.
  std::span<const SampleResult> recorded{};
};
using OnSample = std::function<void(const Sample&, const SampleResult&)>;
using OnReuse = std::function<void(const ReusedCache&)>;  // before the first sample

/// Processes one sample after the other: builds its scope (model, template, sampling, image
/// content), looks up the key of its chunk source match level by match level, then asks the engine. An answer is
/// inserted once it exists, under the sample's key and scope. All caches start empty, or with what
/// the cache folder has of an earlier run (run_cache.h).
///
/// Wrong    An answer from the cache is compared with what the engine answers itself; in live mode
///          the engine is asked for that after the sample's time was taken.
///
/// Levels    text:exact, text:canonical, text:near (not about images), embedding:*, fusion, text. With
///          a temperature above 0 nothing is looked up or cached, because answers are random.
/// Errors   Before the first sample: kInvalidArgument: layers that do not match the hook's vectors,
///          or answers about similar images in live mode; kUnsupported: a hook whose states the
///          engine does not expose. kInvalidArgument: a recorded sample is decided otherwise now.
///          Errors of one sample are part of its result. After the last:
///          kUnavailable: the cache folder cannot be written.
Result<ExperimentReport> run_experiment(const ExperimentSpec& spec, CacheMode mode,
                                        std::span<const Sample> samples,
                                        const ExperimentWorld& world,
                                        const OnSample& on_sample = {},
                                        const OnReuse& on_start = {});

/// SHA-256, in hexadecimal digits, over all fields of the samples and their images.
[[nodiscard]] std::string data_hash(std::span<const Sample> samples);

/// A digest, in hexadecimal digits, of what happened to every sample: decision, source, cached
/// question, answer. Two runs with the same outcome differ in nothing but time.
[[nodiscard]] std::string outcome_hash(std::span<const SampleResult> results);

}  // namespace afterimage
