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
#include "foundation/text/csv.h"
#include "lab/experiment/experiment_data.h"
#include "lab/experiment/spec.h"

namespace afterimage {

struct SweepOptions {
  std::string log_file = "experiment_logs.csv";
  std::string samples_dir;  // <samples_dir>/<name>.jsonl; empty: no samples are written
  bool resume = false;      // what is in the log with the same spec and data is not run again
  bool purge = false;       // cache folders that carry our mark are emptied before each run
  CacheMode mode = CacheMode::kDryRun;
  DataPlaces places;
};

/// What a sweep says while it runs.
struct SweepProgress {
  std::function<void(const std::string& line)> say;
  /// Samples done of the experiment that runs, experiments done, and how long the rest may take.
  std::function<void(std::string_view experiment, std::size_t sample, std::size_t of,
                     std::size_t done, std::size_t experiments, Duration left)>
      progress;
  std::function<std::string()> timestamp;  // UTC, for the log
};

struct SweepOutcome {
  std::size_t ran = 0;
  std::size_t skipped = 0;
  std::size_t failed = 0;    // said by the voice
  std::vector<CsvRow> rows;  // of the log, of this sweep's experiments, the last of each name
};

/// One experiment after the other, each from empty caches. Of each, the samples are on the disk
/// under their name before its row is in the log, and the row is there as a whole or not at all; so
/// whatever ends the process, the next one with `resume` runs what has no row and nothing else.
///
/// Resume   By name, spec_hash and data_hash: an experiment that was edited, or whose data were,
///          runs again.
/// Errors   The log has other columns, or cannot be written; nothing was run. What is wrong with
///          one experiment is said and counted, and the others run.
Result<SweepOutcome> run_sweep(std::span<const ExperimentSpec> specs, const SweepOptions& options,
                               Files& files, const Clock& clock, const SweepProgress& voice);

}  // namespace afterimage
