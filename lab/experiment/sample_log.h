// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "foundation/platform/files.h"
#include "lab/experiment/experiment.h"

namespace afterimage {

/// Files with one entry per sample.
struct SampleFiles {
  std::string csv;    // rows of sample_columns(); empty: not written
  std::string jsonl;  // objects of sample_json(); empty: not written
};

/// Writes samples while an experiment runs: one that is killed loses at most the last second's.
///
/// Threads  One at a time.
class SampleLog {
 public:
  /// Replaces the files with what is `recorded` of an earlier run. `samples`, `files` and `clock`
  /// outlive the log. `settings`: spec_hash() of the experiment.
  static Result<SampleLog> open(SampleFiles paths, std::string settings,
                                std::span<const Sample> samples,
                                std::span<const SampleResult> recorded, Files& files,
                                const Clock& clock);
  Result<void> add(const SampleResult& result);
  /// Writes what is waiting.
  Result<void> flush();

 private:
  SampleLog(SampleFiles paths, std::string settings, std::span<const Sample> samples, Files& files,
            const Clock& clock);
  void put(const SampleResult& result);

  SampleFiles paths_;
  std::string settings_;
  std::span<const Sample> samples_;
  Files* files_;
  const Clock* clock_;
  std::string rows_;
  std::string lines_;
  Duration flushed_at_;
};

/// What an earlier run of the same experiment wrote about the first of its samples. A line that was
/// cut off, and those after it, are left out.
///
/// Errors   kNotFound: no such file. kInvalidArgument: of another experiment or of other data; the
///          message names the line.
Result<std::vector<SampleResult>> recorded_samples(const std::string& jsonl,
                                                   const std::string& settings,
                                                   std::span<const Sample> samples,
                                                   const Files& files);

}  // namespace afterimage
