// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "afterimage/experiment/answer_trial.h"
#include "cli/verbs.h"

namespace afterimage {
namespace {

struct ExperimentCall {
  std::string dataset = "generated";
  std::size_t questions = 12'000;
  std::uint64_t seed = 1;
  std::string serve = "near";
  bool json = false;
};

TextRung rung_named(std::string_view name) {
  const auto* const rung = std::ranges::find_if(
      kTextRungs, [&](TextRung one) { return to_string(one).ends_with(name); });
  return rung == kTextRungs.end() ? TextRung::kExact : *rung;
}

ExitCode run(const ExperimentCall& call, const World& world) {
  const QuestionSet set =
      make_question_set({.questions = call.questions,
                         .scenes = std::max<std::size_t>(call.questions / 30, 2),
                         .seed = call.seed});
  // What is beyond the rung that serves is watched, so that its matches are counted too.
  const auto report = run_trial(
      set, {.text = {.serve = rung_named(call.serve), .watch = TextRung::kNear}}, world.clock);
  if (!report.has_value()) {
    fmt::print(stderr, "afterimage experiment: {}\n", report.error().message);
    return ExitCode::kProblem;
  }
  fmt::print("{}", call.json ? to_json(*report) : to_table(*report));
  return report->unsafe == 0 && (!report->likeness || report->likeness->in_budget())
             ? ExitCode::kFine
             : ExitCode::kProblem;
}

}  // namespace

void add_experiment(CLI::App& program, World& world, ExitCode& code) {
  auto call = std::make_shared<ExperimentCall>();
  CLI::App* verb = program.add_subcommand(
      "experiment",
      "Ask questions whose true answers are known through the answer cache, and traps among\n"
      "them: which rung serves how many, and is any answer wrong?");
  verb->add_option("--dataset", call->dataset,
                   "generated: rendered and told scenes with a graph of all that is true")
      ->check(CLI::IsMember({"generated"}))
      ->capture_default_str();
  verb->add_option("--questions", call->questions, "How many")
      ->check(CLI::Range(std::size_t{1}, std::size_t{10'000'000}))
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--seed", call->seed, "Another seed, other questions")
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--serve", call->serve, "The loosest rung that may serve")
      ->check(CLI::IsMember({"exact", "canonical", "near"}))
      ->capture_default_str();
  verb->add_flag("--json", call->json, "For programs");
  verb->footer(
      "Examples:\n"
      "  afterimage experiment\n"
      "  afterimage experiment --questions 100000 --seed 7 --json\n"
      "\n"
      "Exit code 1: a wrong answer was served, or a trap.");
  verb->callback([call, &world, &code] { code = run(*call, world); });
}

}  // namespace afterimage
