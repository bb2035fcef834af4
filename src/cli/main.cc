// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "cli/verbs.h"

namespace afterimage {
namespace {

/// CLI11 only says that a verb is required; an unknown verb is answered with the list of verbs.
bool rejects_unknown_verb(const CLI::App& program, std::string_view word) {
  if (word.empty() || word.starts_with("-")) return false;
  std::string known;
  for (const CLI::App* verb : program.get_subcommands({})) {
    if (verb->get_name() == word) return false;
    known += (known.empty() ? "" : ", ") + verb->get_name();
  }
  fmt::print(stderr,
             "afterimage: there is no verb \"{}\"; the verbs are {}" AFTERIMAGE_VERBS_HINT "\n",
             word, known);
  return true;
}

int run_program(int argc, char** argv) {
  CLI::App program(
      "Afterimage, the reuse engine for multimodal LLM serving: encode once, prefill once, answer "
      "once.",
      "afterimage");
  program.set_version_flag("--version", "afterimage " AFTERIMAGE_VERSION, "Print the version");
  program.require_subcommand(1);
  program.get_formatter()->column_width(34);
  program.footer(
      "Exit codes: 0 success, 1 the work found a problem, 2 usage error (nothing was done).\n"
      "Every verb has its own help: afterimage VERB --help");
  SystemFiles files;
  const SystemClock clock;
  World world{.files = files, .clock = clock};
  ExitCode code = ExitCode::kFine;
#include "built_verbs.inc"  // add_run(program, world, code); and so on, for the verbs of this build
  if (argc > 1 && rejects_unknown_verb(program, argv[1]))
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
}  // namespace afterimage

int main(int argc, char** argv) {
  // A write beyond `ulimit -f` is then an error like a full disk, and does not end the process.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return afterimage::run_program(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "afterimage: %s\n", error.what());
    return 1;
  }
}
