// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>

#include "lab/cli/verbs.h"
#include "lab/pressure_scripts/pressure.h"
#include "lab/pressure_scripts/pressure_script.h"

namespace afterimage {
namespace {

struct PressureArgs {
  std::string script;
  bool json = false;
};

Result<PressureScript> read_script(const std::string& path, const Files& files) {
  AFI_TRY(const std::vector<std::byte> bytes, files.read(path, 16_MiB));
  auto script = parse_pressure_script(
      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  if (script.has_value()) return script;
  return fail(script.error().code, fmt::format("'{}' {}", path, script.error().message));
}

ExitCode run(const PressureArgs& args, const World& world) {
  const auto script = read_script(args.script, world.files);
  if (!script.has_value()) {
    fmt::print(stderr, "afterimage-lab pressure: {}\n", script.error().message);
    return ExitCode::kUsageError;
  }
  const PressureReport governor = run_pressure(*script, PressureRules::kGovernor);
  const PressureReport seed = run_pressure(*script, PressureRules::kSeed);
  fmt::print("{}", args.json ? to_json(governor, seed) : to_table(governor, seed));
  return governor.fine() ? ExitCode::kFine : ExitCode::kProblem;
}

}  // namespace

void add_pressure(CLI::App& program, World& world, ExitCode& code) {
  auto args = std::make_shared<PressureArgs>();
  CLI::App* verb = program.add_subcommand(
      "pressure",
      "Run a memory-pressure script through the governor in simulated time, beside the rules of\n"
      "the original VRAMAwareCache, and check the script's expectations");
  verb->add_option("--script", args->script,
                   "The script (format: "
                   "docs/lab/formats/pressure-script.md)")
      ->required()
      ->type_name("FILE");
  verb->add_flag("--json", args->json, "Print JSON instead of text");
  verb->footer(
      "Examples:\n"
      "  afterimage-lab pressure --script examples/pressure/bursts.txt\n"
      "  afterimage-lab pressure --script examples/pressure/hover.txt --json\n"
      "\n"
      "Exit code 1: the governor missed an expectation of the script.");
  verb->callback([args, &world, &code] { code = run(*args, world); });
}

}  // namespace afterimage
