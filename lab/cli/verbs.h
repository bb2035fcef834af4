// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <CLI/CLI.hpp>

#include "cli/world.h"

namespace afterimage {

/// Each function registers one verb. When the command line names that verb, parsing runs it and
/// stores its exit code in `code`.
void add_experiment(CLI::App& program, World& world, ExitCode& code);
void add_sweep(CLI::App& program, World& world, ExitCode& code);
void add_ablation(CLI::App& program, World& world, ExitCode& code);
void add_pairs(CLI::App& program, World& world, ExitCode& code);
void add_simulate(CLI::App& program, World& world, ExitCode& code);
void add_pressure(CLI::App& program, World& world, ExitCode& code);
void add_certify(CLI::App& program, World& world, ExitCode& code);

}  // namespace afterimage
