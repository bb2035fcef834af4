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
#include "lab/datasets/image_roots.h"
#include "lab/datasets/sample.h"
#include "lab/experiment/spec.h"
#include "lab/experiment/technique.h"

namespace afterimage {

/// Whoever answers when nothing is served.
class SampleEngine {
 public:
  virtual ~SampleEngine() = default;
  virtual Result<Answer> answer(const Sample& sample, const std::string& prompt) = 0;
};

/// Answers with the data set's own answer: what it is asked is always right, so whatever is wrong
/// is reuse's. No model is run. kNotFound: the data set has no answer.
class OracleEngine final : public SampleEngine {
 public:
  Result<Answer> answer(const Sample& sample, const std::string& prompt) override;
};

/// What became of a sample.
enum class Decision : unsigned char {
  kServed,   // from what was kept, and nobody was asked
  kMatched,  // something kept was found to stand for it, and the engine answered: a dry run
  kMissed,   // the engine answered
  kFailed,   // the engine had no answer, and nothing was kept
};

struct SampleResult {
  std::size_t sample = 0;  // its number, from 0
  std::string prompt;
  std::string chunk_text;
  Decision decision = Decision::kMissed;
  std::string source;     // of what was served or matched: "text:exact", "embedding:prompt", …
  std::string candidate;  // the key it was kept under
  double score = 0;       // 1: the same words
  Duration latency{0};    // from the look-up to the answer, everything between included
  std::string response;
  std::string error;  // why there is no response
  std::optional<bool> is_correct;
  bool is_wrong = false;  // what was served or matched is not what the engine says
  Techniques techniques;
};

struct SourceTotals {
  std::uint64_t count = 0;
  std::uint64_t wrong = 0;
  Duration latency{0};  // of all together
};

struct ExperimentTotals {
  std::uint64_t prompts = 0;
  std::uint64_t served = 0;
  std::uint64_t matched_not_used = 0;
  std::uint64_t missed = 0;
  std::uint64_t failed = 0;
  std::uint64_t wrong_served = 0;
  std::uint64_t wrong_matched = 0;  // would have been wrong
  std::uint64_t judged = 0;         // samples that have a reference
  std::uint64_t correct = 0;
  Duration latency{0};  // sums
  Duration latency_served{0};
  Duration latency_other{0};
  std::uint64_t expected = 0;                   // samples that say which technique they are for
  std::uint64_t expected_met = 0;               // and it was that one
  std::map<std::string, SourceTotals> sources;  // of what was served or matched
  std::map<std::string, std::map<TechniqueStatus, std::uint64_t>> techniques;
  std::vector<std::string> technique_order;
};

struct ExperimentReport {
  std::vector<SampleResult> samples;
  ExperimentTotals totals;
  Duration wall_time{0};
};

/// `results` are of `samples`, as their numbers say.
[[nodiscard]] ExperimentTotals totals_of(std::span<const Sample> samples,
                                         std::span<const SampleResult> results);

/// How often keys repeat, before anything is looked up.
struct KeyUse {
  std::size_t prompts = 0;
  std::size_t keys = 0;
  std::size_t repeated = 0;                              // keys of two and more prompts
  std::vector<std::pair<std::string, std::size_t>> top;  // the most frequent ones, at most five
};
[[nodiscard]] KeyUse key_use(std::span<const Sample> samples, ChunkSource source);

/// What a person should know before the numbers: that the model is not run, that a layer gets no
/// vectors, that a key gives the answer away.
[[nodiscard]] std::vector<std::string> remarks_on(const ExperimentSpec& spec, CacheMode mode);

struct ExperimentWorld {
  const ImageRoots& images;
  const Clock& clock;
  SampleEngine& engine;
};
using OnSample = std::function<void(const Sample&, const SampleResult&)>;

/// One sample after the other: its scope (model, template, sampling, the picture by its content),
/// then the key of its chunk source down the ladder, then the engine. An answer is kept when it is
/// there, under the sample's key and in its scope. Everything begins empty.
///
/// Ladder   text:exact, text:canonical, text:near (not of pictures), embedding:*, text. With a
///          temperature above 0 nothing is looked up or kept: answers are a matter of chance.
/// Errors   kInvalidArgument: layers that the hook's vectors do not fit, before the first sample.
///          What goes wrong with one sample is its own result.
Result<ExperimentReport> run_experiment(const ExperimentSpec& spec, CacheMode mode,
                                        std::span<const Sample> samples,
                                        const ExperimentWorld& world,
                                        const OnSample& on_sample = {});

/// SHA-256, in hexadecimal digits, over all that the samples say and over their pictures.
[[nodiscard]] std::string data_hash(std::span<const Sample> samples);

}  // namespace afterimage
