// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <CLI/CLI.hpp>

#include "cli/world.h"

namespace afterimage {

/// Each function registers one verb. When the command line names that verb, parsing runs it and
/// stores its exit code in `code`.
void add_run(CLI::App& program, World& world, ExitCode& code);
void add_serve(CLI::App& program, World& world, ExitCode& code);
void add_bench(CLI::App& program, World& world, ExitCode& code);
void add_admin(CLI::App& program, World& world, ExitCode& code);
void add_doctor(CLI::App& program, World& world, ExitCode& code);
void add_explain(CLI::App& program, World& world, ExitCode& code);
void add_fingerprint(CLI::App& program, World& world, ExitCode& code);
void add_replay(CLI::App& program, World& world, ExitCode& code);
void add_advise(CLI::App& program, World& world, ExitCode& code);
void add_disk(CLI::App& program, World& world, ExitCode& code);

}  // namespace afterimage
