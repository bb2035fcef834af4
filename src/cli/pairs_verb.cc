// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <string>

#include "afterimage/experiment/pairs.h"
#include "afterimage/experiment/pairs_curve.h"
#include "afterimage/vectors/hashed_ngrams.h"
#include "cli/verbs.h"

namespace afterimage {
namespace {

struct PairsCall {
  std::string file;
  std::size_t show = 0;
  bool json = false;
  bool curve = false;
  std::string report;
};

/// With every embedder that is built in; others are asked for by name.
Result<std::vector<PairsCurve>> curves(const QuestionPairs& pairs) {
  AFI_TRY(HashedNgrams words, HashedNgrams::create());
  AFI_TRY(PairsCurve curve, trace_curve(pairs.pairs, words));
  return std::vector<PairsCurve>{std::move(curve)};
}

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
  if (call.curve || !call.report.empty()) {
    const auto traced = curves(*pairs);
    if (!traced.has_value()) {
      fmt::print(stderr, "afterimage pairs: {}\n", traced.error().message);
      return ExitCode::kProblem;
    }
    for (const PairsCurve& curve : *traced) {
      if (!call.json) fmt::print("{}", to_table(curve));
    }
    if (!call.report.empty()) {
      const std::string page = to_html(*traced, report);
      const auto written = world.files.replace(call.report, std::as_bytes(std::span(page)));
      if (!written.has_value()) {
        fmt::print(stderr, "afterimage pairs: {}\n", written.error().message);
        return ExitCode::kWrongCall;
      }
    }
  }
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
  verb->add_flag(
      "--curve", call->curve,
      "Beyond the rungs without a model: precision and coverage of likeness, by threshold");
  verb->add_option("--report", call->report, "Draw that curve as a page at OUT.html")
      ->type_name("OUT.html");
  verb->add_flag("--json", call->json, "For programs: the rungs without a model");
  verb->footer(
      "Examples:\n"
      "  afterimage pairs questions.jsonl --show 20\n"
      "  afterimage pairs questions.jsonl --json\n"
      "  afterimage pairs questions.jsonl --curve --report curve.html\n"
      "\n"
      "Exit code 1: a line of the file is no pair.");
  verb->callback([call, &world, &code] { code = run(*call, world); });
}

}  // namespace afterimage
