// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <vector>

#include "fire/fire.h"

namespace afterimage::fire {

struct RowResult {
  const Row* row;
  Tally tally;
  Duration took{0};
};

/// The result of disabling one guard.
struct GuardResult {
  std::string guard;
  std::string caught_by;  // the row that noticed; empty: none
  std::string how;
};

struct Matrix {
  std::uint64_t seed = 0;
  bool brief = false;
  std::vector<RowResult> rows;
  std::vector<GuardResult> guards;
  Duration took{0};

  [[nodiscard]] bool fine() const;
};

/// Upper bound of the failure rate at 95 % confidence after `n` trials without a failure: the p
/// for which (1 - p)^n = 0.05, about 3 / n.
double upper_bound_95(std::uint64_t n);
/// Nearest-rank percentile of sorted durations.
Duration percentile(std::vector<Duration> of, double p);

/// The report as a table, as JSON, and as the Markdown of docs/faults.md.
std::string as_table(const Matrix& matrix);
std::string as_json(const Matrix& matrix);
std::string as_markdown(const Matrix& matrix);
/// Writes between the marks in the file; a file without marks is replaced. False: it cannot be
/// written.
bool write_markdown(const Matrix& matrix, const std::string& path);

/// Runs rows in child processes, `jobs` at a time; timed rows run alone.
std::vector<RowResult> run_rows(const FireRun& run, std::span<const Row* const> which,
                                unsigned jobs);

/// Which guards to disable, and which rows must notice.
struct ProofOptions {
  std::string guards;             // prefix of their names
  std::vector<const Row*> which;  // rows to run
  unsigned jobs = 1;              // guards tested in parallel
};

/// Disables each guard in turn, in a child process, and runs rows in brief until one notices.
std::vector<GuardResult> prove(const FireRun& run, const ProofOptions& options);

/// Runs everything, mixed, for a duration; prints the process's memory every minute.
bool soak(const FireRun& run, Duration duration);

}  // namespace afterimage::fire
