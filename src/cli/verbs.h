// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <CLI/CLI.hpp>

#include "afterimage/clock.h"
#include "foundation/platform/files.h"

namespace afterimage {

/// Exit codes of every verb.
enum class ExitCode : int {
  kFine = 0,
  kProblem = 1,     // the work found a problem: a request failed, outputs differ
  kUsageError = 2,  // nothing was done: an unknown flag, a missing file
};

/// What a verb may use of the outside world.
struct World {
  Files& files;
  const Clock& clock;
};

/// Each function registers one verb. When the command line names that verb, parsing runs it and
/// stores its exit code in `code`.
void add_run(CLI::App& program, World& world, ExitCode& code);
void add_serve(CLI::App& program, World& world, ExitCode& code);
void add_bench(CLI::App& program, World& world, ExitCode& code);
void add_admin(CLI::App& program, World& world, ExitCode& code);
void add_explain(CLI::App& program, World& world, ExitCode& code);
void add_fingerprint(CLI::App& program, World& world, ExitCode& code);
void add_replay(CLI::App& program, World& world, ExitCode& code);
void add_simulate(CLI::App& program, World& world, ExitCode& code);
void add_advise(CLI::App& program, World& world, ExitCode& code);
void add_pressure(CLI::App& program, World& world, ExitCode& code);
void add_experiment(CLI::App& program, World& world, ExitCode& code);
void add_sweep(CLI::App& program, World& world, ExitCode& code);
void add_pairs(CLI::App& program, World& world, ExitCode& code);
void add_certify(CLI::App& program, World& world, ExitCode& code);
void add_disk(CLI::App& program, World& world, ExitCode& code);

}  // namespace afterimage
