// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <string>

#include "caches/similarity/endpoint_embedder.h"
#include "caches/similarity/hashed_ngrams.h"
#include "cli/verbs.h"
#include "lab/pairs/pairs.h"
#include "lab/pairs/pairs_curve.h"

namespace afterimage {
namespace {

constexpr Duration kPatience =
    std::chrono::seconds(30);  // a batch; nobody waits at a screen for one

struct PairsArgs {
  std::string file;
  std::size_t show = 0;
  bool json = false;
  bool curve = false;
  std::string report;
  std::string embeddings;
  std::string model;
};

/// With the embedder that is built in, and with one elsewhere if it is named.
Result<std::vector<PairsCurve>> curves(const PairsArgs& call, const QuestionPairs& pairs,
                                       const Clock& clock) {
  AFI_TRY(HashedNgrams words, HashedNgrams::create());
  std::vector<PairsCurve> all;
  AFI_TRY(all.emplace_back(), trace_curve(pairs.pairs, words));
  if (call.embeddings.empty()) return all;
  EndpointOptions options{.model = call.model, .deadline = kPatience};
  AFI_TRY(options.url, parse_url(call.embeddings));
  AFI_TRY(const auto elsewhere, EndpointEmbedder::create(std::move(options), clock));
  AFI_TRY(all.emplace_back(), trace_curve(pairs.pairs, *elsewhere));
  return all;
}

ExitCode run(const PairsArgs& call, const World& world) {
  const auto pairs = read_pairs(call.file, world.files);
  if (!pairs.has_value()) {
    fmt::print(stderr, "afterimage pairs: {}\n", pairs.error().message);
    return ExitCode::kUsageError;
  }
  if (pairs->pairs.empty()) {
    fmt::print(stderr,
               "afterimage pairs: '{}' has no line like "
               R"({{"a": "…", "b": "…", "duplicate": true}})"
               "\n",
               call.file);
    return ExitCode::kUsageError;
  }
  const PairsReport report = judge_pairs(pairs->pairs);
  fmt::print("{}", call.json ? to_json(report, *pairs) : to_table(report, *pairs, call.show));
  if (call.curve || !call.report.empty() || !call.embeddings.empty()) {
    const auto traced = curves(call, *pairs, world.clock);
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
        return ExitCode::kUsageError;
      }
    }
  }
  return pairs->rejected.empty() ? ExitCode::kFine : ExitCode::kProblem;
}

}  // namespace

void add_pairs(CLI::App& program, World& world, ExitCode& code) {
  auto call = std::make_shared<PairsArgs>();
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
  verb->add_option("--embeddings", call->embeddings,
                   "Also with a model elsewhere: the address of OpenAI's call, such as\n"
                   "http://localhost:8000/v1/embeddings")
      ->type_name("URL");
  verb->add_option("--embeddings-model", call->model, "The model's name there")->type_name("NAME");
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
