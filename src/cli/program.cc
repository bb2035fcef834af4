// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "cli/program.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string_view>

namespace afterimage {
namespace {

/// CLI11 only says that a verb is required; an unknown verb is answered with the list of verbs.
bool rejects_unknown_verb(const CLI::App& program, std::string_view word,
                          std::string_view missing_verbs) {
  if (word.empty() || word.starts_with("-")) return false;
  std::string known;
  for (const CLI::App* verb : program.get_subcommands({})) {
    if (verb->get_name() == word) return false;
    known += (known.empty() ? "" : ", ") + verb->get_name();
  }
  fmt::print(stderr, AFTERIMAGE_PROGRAM ": there is no verb \"{}\"; the verbs are {}{}\n", word,
             known, missing_verbs);
  return true;
}

int parse_and_run(const ProgramText& text, AddVerbs add, int argc, char** argv) {
  CLI::App program(text.description, AFTERIMAGE_PROGRAM);
  program.set_version_flag("--version", AFTERIMAGE_PROGRAM " " AFTERIMAGE_VERSION,
                           "Print the version");
  program.require_subcommand(1);
  program.get_formatter()->column_width(34);
  program.footer(
      text.footer +
      "Exit codes: 0 success, 1 the work found a problem, 2 usage error (nothing was done).\n"
      "Every verb has its own help: " AFTERIMAGE_PROGRAM " VERB --help");
  SystemFiles files;
  const SystemClock clock;
  World world{.files = files, .clock = clock};
  ExitCode code = ExitCode::kFine;
  add(program, world, code);
  if (argc > 1 && rejects_unknown_verb(program, argv[1], text.missing_verbs))
    return static_cast<int>(ExitCode::kUsageError);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has an exit code for each kind of mistake; ours are three.
    const int cli11_code = program.exit(error);
    return cli11_code == 0 ? 0 : static_cast<int>(ExitCode::kUsageError);
  }
  return static_cast<int>(code);
}

}  // namespace

int run_program(const ProgramText& text, AddVerbs add, int argc, char** argv) {
  // A write beyond `ulimit -f` is then an error like a full disk, and does not end the process.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return parse_and_run(text, add, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, AFTERIMAGE_PROGRAM ": %s\n", error.what());
    return 1;
  }
}

}  // namespace afterimage
