// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "afterimage/engine/reference/reference_engine.h"
#include "afterimage/lab/media_loader.h"
#include "afterimage/lab/run.h"
#include "afterimage/lab/run_report.h"
#include "afterimage/lab/trace.h"
#include "afterimage/lab/workload.h"
#include "afterimage/platform/terminal.h"
#include "cli/verbs.h"

namespace afterimage {
namespace {

struct RunCall {
  std::string workload;
  std::string images;
  std::string json;
  std::string record;
  std::string engine = "reference";
  std::string size = "small";
  std::uint64_t budget = (4_GiB).value();
  std::uint64_t max_entries = 1'000'000;
  std::uint32_t max_tokens = 16;
};

ExitCode wrong_call(const Error& error) {
  fmt::print(stderr, "afterimage run: {}\n", error.message);
  return ExitCode::kWrongCall;
}

/// One line that is drawn over itself; nothing at all when nobody looks.
RunProgress progress_line() {
  if (!standard_error_is_terminal()) return {};
  return [](std::string_view pass, std::size_t done, std::size_t of) {
    constexpr std::size_t kWidth = 30;
    const std::size_t filled = of == 0 ? kWidth : kWidth * done / of;
    fmt::print(stderr, "\r{:<14} [{:=<{}}{:{}}] {}/{} requests\033[K", pass, "", filled, "",
               kWidth - filled, done, of);
    if (done == of) fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  };
}

Result<std::unique_ptr<ReferenceEngine>> make_engine(const RunCall& call, const Clock& clock) {
  ReferenceOptions options =
      call.size == "tiny" ? ReferenceOptions::tiny() : ReferenceOptions::small();
  options.clock = &clock;
  return ReferenceEngine::create(std::move(options));
}

Result<RunReport> work(const RunCall& call, World& world, const MediaLimits& limits) {
  AFI_TRY(
      MediaLoader loader,
      MediaLoader::open({.workload = call.workload, .images_folder = call.images, .limits = limits},
                        world.files));
  AFI_TRY(const Workload workload,
          read_workload(call.workload, world.files,
                        [&](const MediaReference& reference) { return loader.load(reference); }));
  if (workload.requests.empty() && workload.rejected.empty()) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' holds no requests", call.workload));
  }
  for (const auto& [name, photo] : loader.stand_ins()) {
    fmt::print(stderr, "{} stands in for {}\n", photo, name);
  }
  AFI_TRY(const auto engine, make_engine(call, world.clock));
  const RunOptions options{
      .engine_name = fmt::format("{} ({})", call.engine, call.size),
      .generate = {.max_tokens = TokenCount(call.max_tokens)},
      .reuse = {.budget = Bytes(call.budget), .max_encoder_entries = EntryCount(call.max_entries)},
      .record = !call.record.empty()};
  return run_workload(workload, *engine, options, world.clock, progress_line());
}

ExitCode run(const RunCall& call, World& world) {
  const bool to_standard_output = call.json == "-";
  for (const std::string& path : {to_standard_output ? "" : call.json, call.record}) {
    if (path.empty()) continue;
    if (const auto writable = world.files.check_replaceable(path); !writable.has_value()) {
      return wrong_call(writable.error());
    }
  }
  const auto report = work(call, world, MediaLimits());
  if (!report.has_value()) return wrong_call(report.error());
  const std::string json = call.json.empty() ? "" : to_json(*report);
  fmt::print("{}", to_standard_output ? json : to_table(*report));
  const std::string trace = call.record.empty() ? "" : to_text(report->trace);
  for (const auto& [path, text] :
       {std::pair(to_standard_output ? "" : call.json, json), std::pair(call.record, trace)}) {
    if (path.empty()) continue;
    const auto written = world.files.replace(path, std::as_bytes(std::span(text)));
    if (!written.has_value()) {
      fmt::print(stderr, "afterimage run: {}\n", written.error().message);
      return ExitCode::kProblem;
    }
  }
  return report->fine() ? ExitCode::kFine : ExitCode::kProblem;
}

}  // namespace

void add_run(CLI::App& program, World& world, ExitCode& code) {
  auto call = std::make_shared<RunCall>();
  CLI::App* verb =
      program.add_subcommand("run",
                             "Run a workload without reuse, encoding once, and prefilling once;\n"
                             "prove that the outputs are identical and print what was saved");
  verb->add_option("--workload", call->workload,
                   "Requests, one JSON object a line: id, agent, tenant, messages (OpenAI chat)")
      ->required()
      ->type_name("FILE");
  verb->add_option(
          "--images", call->images,
          "Your own photos: names are looked up here; if none is here, the photos stand in")
      ->type_name("DIR");
  verb->add_option("--json", call->json, "Write the full report; - for standard output")
      ->type_name("FILE");
  verb->add_option("--record", call->record,
                   "Write a trace of the requests, for replay: lengths and repeats, no content")
      ->type_name("FILE");
  verb->add_option("--engine", call->engine, "Which engine computes")
      ->check(CLI::IsMember({"reference"}))
      ->capture_default_str();
  verb->add_option("--size", call->size,
                   "Size of the built-in engine: tiny is instant, small takes real time")
      ->check(CLI::IsMember({"tiny", "small"}))
      ->capture_default_str();
  verb->add_option("--budget", call->budget, "Memory for everything that is kept: 64MiB, 4GiB")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("4GiB")
      ->type_name("SIZE");
  verb->add_option("--max-entries", call->max_entries, "Encoder outputs kept at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--max-tokens", call->max_tokens, "Tokens generated for each request")
      ->check(CLI::Range(1U, 4096U))
      ->capture_default_str()
      ->type_name("N");
  verb->footer(
      "Examples:\n"
      "  afterimage run --workload examples/agents.jsonl\n"
      "  afterimage run --workload examples/agents.jsonl --images ~/Pictures\n"
      "  afterimage run --workload mine.jsonl --budget 64MiB --json out.json");
  verb->callback([call, &world, &code] { code = run(*call, world); });
}

}  // namespace afterimage
