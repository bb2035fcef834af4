// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "foundation/platform/files.h"
#include "lab/experiment/csv.h"
#include "lab/experiment/experiment.h"
#include "lab/experiment/experiment_data.h"
#include "lab/experiment/spec.h"

namespace afterimage {

struct SweepOptions {
  std::string log_file = "experiment_logs.csv";
  std::string samples_dir;  // <samples_dir>/<name>.jsonl; empty: samples are not written
  bool resume = false;      // skip experiments already logged with the same spec and data
  bool purge = false;       // empty marked cache folders before each run
  CacheMode mode = CacheMode::kDryRun;
  DataPlaces places;
  /// What answers the samples of an experiment; empty: the oracle.
  std::function<Result<std::unique_ptr<SampleEngine>>(const ExperimentSpec& spec,
                                                      const ImageRoots& images)>
      engine;
  /// What makes the vectors of its keys; empty, or nullptr: hashed n-grams.
  std::function<Result<Embedder*>(const ExperimentSpec& spec)> encoder;
};

/// Progress output of a sweep.
struct SweepProgress {
  std::function<void(const std::string& line)> say;
  /// Samples done in the current experiment, experiments done, and the estimated time left.
  std::function<void(std::string_view experiment, std::size_t sample, std::size_t of,
                     std::size_t done, std::size_t experiments, Duration left)>
      progress;
  std::function<std::string()> timestamp;  // UTC, for the log
};

struct SweepOutcome {
  std::size_t ran = 0;
  std::size_t skipped = 0;
  std::size_t failed = 0;    // reported through `say`
  std::vector<CsvRow> rows;  // log rows of this sweep's experiments, the last of each name
};

/// Which experiments had the same outcome (outcome_hash): "a = b", one group an element. `rows` are of
/// the sweep's log.
[[nodiscard]] std::vector<std::string> same_outcomes(std::span<const CsvRow> rows);

/// Runs the experiments in order, each with empty caches. An experiment's samples are durable under
/// their final name before its row is appended to the log, and a row is written completely or not
/// at all; so after a crash, a run with `resume` executes exactly the experiments without a row.
///
/// Resume   By name, spec_hash and data_hash: an experiment with edited settings or data runs
///          again.
/// Errors   The log has other columns or cannot be written; nothing was run. The error of one
///          experiment is reported and counted, and the others run.
Result<SweepOutcome> run_sweep(std::span<const ExperimentSpec> specs, const SweepOptions& options,
                               Files& files, const Clock& clock, const SweepProgress& progress);

/// The current UTC time, as rows have it: "2026-11-22T08:15:30Z".
[[nodiscard]] std::string utc_timestamp();

}  // namespace afterimage
