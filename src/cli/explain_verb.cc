// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cli/engine_args.h"
#include "cli/verbs.h"
#include "cli/workload_args.h"
#include "lab/run/explain.h"

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

ExitCode answer_with(ExitCode code, const Error& error) {
  fmt::print(stderr, "afterimage explain: {}\n", error.message);
  return code;
}

ExitCode explain(const ExplainArgs& call, World& world) {
  if (const auto writable = check_report(call.json, world); !writable.has_value()) {
    return answer_with(ExitCode::kUsageError, writable.error());
  }
  const auto workload = load_workload(call.workload, call.images, world);
  if (!workload.has_value()) return answer_with(ExitCode::kUsageError, workload.error());
  const auto engine = make_engine(call.engine, world.clock);
  if (!engine.has_value()) return answer_with(ExitCode::kUsageError, engine.error());
  const auto explanation =
      explain_request(*workload, RequestId(call.request), **engine, {.budget = Bytes(call.budget)},
                      world.clock, progress_line());
  if (!explanation.has_value()) {
    const bool unknown = explanation.error().code == ErrorCode::kNotFound;
    return answer_with(unknown ? ExitCode::kUsageError : ExitCode::kProblem, explanation.error());
  }
  for (const RejectedLine& line : workload->rejected) {
    fmt::print(stderr, "line {} was not served: {}\n", line.number, line.error.message);
  }
  const auto printed = print_report(to_text(*explanation), to_json(*explanation), call.json, world);
  if (!printed.has_value()) return answer_with(ExitCode::kProblem, printed.error());
  return ExitCode::kFine;
}

}  // namespace

void add_explain(CLI::App& program, World& world, ExitCode& code) {
  auto call = std::make_shared<ExplainArgs>();
  CLI::App* verb = program.add_subcommand(
      "explain",
      "Serve a workload up to one request and say in plain words why that one resumed\n"
      "where it did: what was seen before, where it parts, what each kind of layer had");
  verb->add_option("--workload", call->workload, "Requests, one JSON object a line, as for run")
      ->required()
      ->type_name("FILE");
  verb->add_option("--request", call->request, "The id of the request to explain")
      ->required()
      ->type_name("ID");
  verb->add_option("--images", call->images, "Your own photos, as for run")->type_name("DIR");
  verb->add_option("--json", call->json, "Write it for programs; - for standard output")
      ->type_name("FILE");
  verb->add_option("--budget", call->budget, "Memory for everything that is kept: 64MiB, 4GiB")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("4GiB")
      ->type_name("SIZE");
  add_engine_options(*verb, call->engine);
  verb->footer(
      "Examples:\n"
      "  afterimage explain --workload examples/agents.jsonl --request analyst-sales-2\n"
      "  afterimage explain --workload mine.jsonl --request r7 --json -");
  verb->callback([call, &world, &code] { code = explain(*call, world); });
}

}  // namespace afterimage
