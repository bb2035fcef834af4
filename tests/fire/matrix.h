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

/// What caught a guard that was taken away.
struct GuardResult {
  std::string guard;
  std::string caught_by;  // empty: nobody
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

/// With 95 % confidence, no more of such trials fail than this, when of `n` none did: the p for
/// which (1 - p)^n = 0.05, about 3 / n.
double upper_bound_95(std::uint64_t n);
/// Of sorted durations: the nearest rank.
Duration percentile(std::vector<Duration> of, double p);

/// For people, for programs, and for docs/faults.md.
std::string as_table(const Matrix& matrix);
std::string as_json(const Matrix& matrix);
std::string as_markdown(const Matrix& matrix);
/// Between the marks that the file has for it; a file without them becomes just that. False: it
/// cannot be written.
bool write_markdown(const Matrix& matrix, const std::string& path);

/// Runs rows in processes of their own, so many at a time; those that are timed, alone.
std::vector<RowResult> run_rows(const FireRun& run, std::span<const Row* const> which,
                                unsigned jobs);

/// Which guards are taken away, and which rows have to notice.
struct ProofOptions {
  std::string guards;             // those whose names begin so
  std::vector<const Row*> which;  // rows
  unsigned jobs = 1;              // guards at a time
};

/// Takes each guard away in turn, in a process of its own, and runs rows in brief until one
/// notices.
std::vector<GuardResult> prove(const FireRun& run, const ProofOptions& options);

/// Everything, mixed, for so long; prints how much memory the process holds every minute.
bool soak(const FireRun& run, Duration duration);

}  // namespace afterimage::fire
