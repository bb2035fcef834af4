// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "caches/similarity/endpoint_embedder.h"
#include "caches/similarity/endpoint_verifier.h"
#include "caches/similarity/hashed_ngrams.h"
#include "engines/llama/llama_embedder.h"
#include "engines/llama/llama_verifier.h"
#include "lab/cli/verbs.h"
#include "lab/pairs/pairs.h"
#include "lab/pairs/pairs_curve.h"

namespace afterimage {
namespace {

constexpr Duration kDeadline = std::chrono::seconds(30);  // of one call

struct PairsArgs {
  std::string file;
  std::size_t show = 0;
  bool json = false;
  bool curve = false;
  std::string report;
  std::string embeddings;
  std::string model;
  std::string verifier;
  std::string verifier_model;
  std::optional<float> verifier_threshold;
  bool verifier_overrules_vetoes = false;
};

Result<std::unique_ptr<Embedder>> embedder_of(const PairsArgs& args, const Clock& clock) {
  if (!args.embeddings.contains("://")) return make_llama_embedder(args.embeddings);
  ModelEndpointOptions options{.model = args.model, .deadline = kDeadline};
  AFI_TRY(options.url, parse_url(args.embeddings));
  AFI_TRY(auto endpoint, EndpointEmbedder::create(std::move(options), clock));
  return endpoint;
}

Result<std::unique_ptr<Verifier>> verifier_of(const PairsArgs& args, const Clock& clock) {
  if (args.verifier.empty()) return nullptr;
  if (!args.verifier.contains("://")) return make_llama_verifier(args.verifier);
  ModelEndpointOptions options{.model = args.verifier_model, .deadline = kDeadline};
  AFI_TRY(options.url, parse_url(args.verifier));
  return std::make_unique<EndpointVerifier>(std::move(options), clock);
}

/// With the built-in embedder, and with another if one is given; the last with the verifier.
Result<std::vector<PairsCurve>> curves(const PairsArgs& args, const QuestionPairs& pairs,
                                       const Clock& clock) {
  std::vector<PairsCurve> all;
  if (!args.curve && args.report.empty() && args.embeddings.empty() && args.verifier.empty()) {
    return all;
  }
  AFI_TRY(const auto verifier, verifier_of(args, clock));
  const VerifiedBy by{.verifier = verifier.get(),
                      .threshold = args.verifier_threshold,
                      .overrules_vetoes = args.verifier_overrules_vetoes};
  AFI_TRY(HashedNgrams ngrams, HashedNgrams::create());
  const bool only = args.embeddings.empty();
  AFI_TRY(all.emplace_back(), trace_curve(pairs.pairs, ngrams, only ? by : VerifiedBy()));
  if (only) return all;
  AFI_TRY(const auto embedder, embedder_of(args, clock));
  AFI_TRY(all.emplace_back(), trace_curve(pairs.pairs, *embedder, by));
  return all;
}

ExitCode run(const PairsArgs& args, const World& world) {
  const auto pairs = read_pairs(args.file, world.files);
  if (!pairs.has_value()) {
    fmt::print(stderr, "afterimage-lab pairs: {}\n", pairs.error().message);
    return ExitCode::kUsageError;
  }
  if (pairs->pairs.empty()) {
    fmt::print(stderr,
               "afterimage-lab pairs: '{}' holds no pairs: expected lines like "
               R"({{"a": "…", "b": "…", "duplicate": true}})"
               "\n",
               args.file);
    return ExitCode::kUsageError;
  }
  const PairsReport report = judge_pairs(pairs->pairs);
  if (!args.json) fmt::print("{}", to_table(report, *pairs, args.show));
  const auto traced = curves(args, *pairs, world.clock);
  if (!traced.has_value()) {
    fmt::print(stderr, "afterimage-lab pairs: {}\n", traced.error().message);
    return ExitCode::kProblem;
  }
  if (args.json) fmt::print("{}", to_json(report, *pairs, *traced));
  for (const PairsCurve& curve : *traced) {
    if (!args.json) fmt::print("{}", to_table(curve));
  }
  if (!args.report.empty()) {
    const std::string page = to_html(*traced, report);
    const auto written = world.files.replace(args.report, std::as_bytes(std::span(page)));
    if (!written.has_value()) {
      fmt::print(stderr, "afterimage-lab pairs: {}\n", written.error().message);
      return ExitCode::kUsageError;
    }
  }
  return pairs->rejected.empty() ? ExitCode::kFine : ExitCode::kProblem;
}

}  // namespace

void add_pairs(CLI::App& program, World& world, ExitCode& code) {
  auto args = std::make_shared<PairsArgs>();
  CLI::App* verb = program.add_subcommand(
      "pairs",
      "Measure precision and coverage of the answer cache's text matching (exact, canonical,\n"
      "near) on labelled pairs of questions");
  verb->add_option(
          "file", args->file,
          R"(Pairs, one JSON object per line: {"a": text, "b": text, "duplicate": true or false})")
      ->required()
      ->type_name("FILE");
  verb->add_option("--show", args->show, "Quote up to N matches that contradict their label")
      ->type_name("N");
  verb->add_flag(
      "--curve", args->curve,
      "Also print precision and coverage of embedding similarity, by threshold and as it\n"
      "learns");
  verb->add_option("--report", args->report, "Write that curve as an HTML page")
      ->type_name("OUT.html");
  verb->add_option(
          "--embeddings", args->embeddings,
          "Also measure an embedding model: a GGUF file (scripts/fetch-embedder.py), or an\n"
          "OpenAI-compatible endpoint such as http://localhost:8000/v1/embeddings")
      ->type_name("FILE|URL");
  verb->add_option("--embeddings-model", args->model, "The model name that the endpoint expects")
      ->type_name("NAME");
  verb->add_option(
          "--verifier", args->verifier,
          "Also measure a cross-encoder that reads similar pairs without a veto: a GGUF file\n"
          "(bench/cross_encoder.py), or an endpoint such as http://localhost:8080/v1/rerank")
      ->type_name("FILE|URL");
  verb->add_option("--verifier-model", args->verifier_model,
                   "The model name that the endpoint expects")
      ->type_name("NAME");
  verb->add_option("--verifier-threshold", args->verifier_threshold,
                   "Count the pairs with at least this score, too; choose it on other pairs")
      ->type_name("SCORE");
  verb->add_flag(
      "--verifier-overrules-vetoes", args->verifier_overrules_vetoes,
      "Let it also read pairs with a veto, as the setting similarity.verifier_overrules_vetoes\n"
      "does");
  verb->add_flag("--json", args->json, "Print JSON instead of text");
  verb->footer(
      "Examples:\n"
      "  afterimage-lab pairs questions.jsonl --show 20\n"
      "  afterimage-lab pairs questions.jsonl --json\n"
      "  afterimage-lab pairs questions.jsonl --curve --report curve.html\n"
      "  afterimage-lab pairs questions.jsonl --embeddings build/models/all-minilm-l6-v2.gguf\n"
      "  afterimage-lab pairs questions.jsonl --verifier http://localhost:8080/v1/rerank\n"
      "\n"
      "Exit code 1: some lines of the file are not pairs.");
  verb->callback([args, &world, &code] { code = run(*args, world); });
}

}  // namespace afterimage
