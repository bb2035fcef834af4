// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <string>

#include "afterimage/experiment/pairs.h"
#include "cli/verbs.h"

namespace afterimage {
namespace {

struct PairsCall {
  std::string file;
  std::size_t show = 0;
  bool json = false;
};

ExitCode run(const PairsCall& call, const World& world) {
  const auto pairs = read_pairs(call.file, world.files);
  if (!pairs.has_value()) {
    fmt::print(stderr, "afterimage pairs: {}\n", pairs.error().message);
    return ExitCode::kWrongCall;
  }
  if (pairs->pairs.empty()) {
    fmt::print(stderr,
               "afterimage pairs: '{}' has no line like "
               R"({{"a": "…", "b": "…", "duplicate": true}})"
               "\n",
               call.file);
    return ExitCode::kWrongCall;
  }
  const PairsReport report = judge_pairs(pairs->pairs);
  fmt::print("{}", call.json ? to_json(report, *pairs) : to_table(report, *pairs, call.show));
  return pairs->rejected.empty() ? ExitCode::kFine : ExitCode::kProblem;
}

}  // namespace

void add_pairs(CLI::App& program, World& world, ExitCode& code) {
  auto call = std::make_shared<PairsCall>();
  CLI::App* verb = program.add_subcommand(
      "pairs",
      "Hold labelled pairs of questions against the rungs that serve a cached answer without a\n"
      "model: how many does each take for one question, and how often do the labels agree?");
  verb->add_option("file", call->file,
                   R"(One pair a line: {"a": text, "b": text, "duplicate": true or false})")
      ->required()
      ->type_name("FILE");
  verb->add_option("--show", call->show, "Quote up to N of the matches that are labelled otherwise")
      ->type_name("N");
  verb->add_flag("--json", call->json, "For programs");
  verb->footer(
      "Examples:\n"
      "  afterimage pairs questions.jsonl --show 20\n"
      "  afterimage pairs questions.jsonl --json\n"
      "\n"
      "Exit code 1: a line of the file is no pair.");
  verb->callback([call, &world, &code] { code = run(*call, world); });
}

}  // namespace afterimage
