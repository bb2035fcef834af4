// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "bench/run/explain.h"
#include "cli/engine_args.h"
#include "cli/verbs.h"
#include "cli/workload_args.h"

namespace afterimage {
namespace {

struct ExplainArgs {
  std::string workload;
  std::string request;
  std::string images;
  std::string json;
  EngineArgs engine;
  std::uint64_t budget = (4_GiB).value();
};

ExitCode report_error(ExitCode code, const Error& error) {
  fmt::print(stderr, "afterimage explain: {}\n", error.message);
  return code;
}

ExitCode explain(const ExplainArgs& args, World& world) {
  if (const auto writable = check_report(args.json, world); !writable.has_value()) {
    return report_error(ExitCode::kUsageError, writable.error());
  }
  const auto workload = load_workload(args.workload, args.images, world);
  if (!workload.has_value()) return report_error(ExitCode::kUsageError, workload.error());
  const auto engine = make_engine(args.engine, world.clock);
  if (!engine.has_value()) return report_error(ExitCode::kUsageError, engine.error());
  const auto explanation =
      explain_request(*workload, RequestId(args.request), **engine, {.budget = Bytes(args.budget)},
                      world.clock, progress_line());
  if (!explanation.has_value()) {
    const bool unknown = explanation.error().code == ErrorCode::kNotFound;
    return report_error(unknown ? ExitCode::kUsageError : ExitCode::kProblem, explanation.error());
  }
  for (const RejectedLine& line : workload->rejected) {
    fmt::print(stderr, "line {} was not served: {}\n", line.number, line.error.message);
  }
  const auto printed = print_report(to_text(*explanation), to_json(*explanation), args.json, world);
  if (!printed.has_value()) return report_error(ExitCode::kProblem, printed.error());
  return ExitCode::kFine;
}

}  // namespace

void add_explain(CLI::App& program, World& world, ExitCode& code) {
  auto args = std::make_shared<ExplainArgs>();
  CLI::App* verb = program.add_subcommand(
      "explain",
      "Explain why one request of a workload reused what it did: the longest cached prefix,\n"
      "where the prompt diverges, and what each kind of layer had cached");
  verb->add_option("--workload", args->workload, "Requests, one JSON object per line, as for run")
      ->required()
      ->type_name("FILE");
  verb->add_option("--request", args->request, "The id of the request to explain")
      ->required()
      ->type_name("ID");
  verb->add_option("--images", args->images,
                   "Your own photos instead of the workload's images, "
                   "as for run")
      ->type_name("DIR");
  verb->add_option("--json", args->json, "Write the explanation as JSON; - for standard output")
      ->type_name("FILE");
  verb->add_option("--budget", args->budget,
                   "Memory budget for everything cached, e.g. 64MiB or "
                   "4GiB")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("4GiB")
      ->type_name("SIZE");
  add_engine_options(*verb, args->engine);
  verb->footer(
      "Of a request to a gateway: afterimage admin explain\n"
      "\n"
      "Examples:\n"
      "  afterimage explain --workload examples/agents.jsonl --request analyst-sales-2\n"
      "  afterimage explain --workload mine.jsonl --request r7 --json -");
  verb->callback([args, &world, &code] { code = explain(*args, world); });
}

}  // namespace afterimage
