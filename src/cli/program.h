// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/world.h"

/// What two programs share: `afterimage`, and `afterimage-lab` in lab/cli. AFTERIMAGE_PROGRAM is
/// the name of the one that is compiled.
namespace afterimage {

struct ProgramText {
  std::string description;
  std::string footer;         // of --help; the exit codes follow
  std::string missing_verbs;  // after the list of verbs, in the answer to an unknown one
};

using AddVerbs = void (*)(CLI::App& program, World& world, ExitCode& code);

/// Runs the verb that the command line names. Returns the exit code of the process; an exception is
/// printed and is 1.
int run_program(const ProgramText& text, AddVerbs add, int argc, char** argv);

}  // namespace afterimage
