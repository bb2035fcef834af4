// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "cli/experiment_args.h"
#include "cli/verbs.h"
#include "foundation/platform/environment.h"
#include "foundation/platform/terminal.h"
#include "lab/experiment/sweep.h"
#include "lab/experiment/sweep_page.h"

namespace afterimage {
namespace {

constexpr Bytes kMaxSpecs = 16_MiB;

struct SweepArgs {
  std::string specs;
  SweepOptions options;
  std::string cache_mode = "dry-run";
  std::string report;
  DataArgs data;
};

ExitCode complain_about(const Error& error, ExitCode code) {
  fmt::print(stderr, "afterimage sweep: {}\n", error.message);
  return code;
}

Result<std::vector<ExperimentSpec>> read_specs(const std::string& path, const Files& files) {
  AFI_TRY(const std::vector<std::byte> content, files.read(path, kMaxSpecs));
  auto specs = parse_specs({reinterpret_cast<const char*>(content.data()), content.size()});
  if (specs.has_value()) return specs;
  return fail(specs.error().code, fmt::format("'{}': {}", path, specs.error().message));
}

/// "1:05".
std::string as_minutes(Duration left) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(left).count();
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

SweepProgress voice() {
  const bool on_terminal = standard_error_is_terminal();
  SweepProgress said;
  said.say = [on_terminal](const std::string& line) {
    if (on_terminal) fmt::print(stderr, "\r\033[K");
    fmt::print("{}\n", line);
    std::fflush(stdout);  // whoever reads a log of a long sweep sees how far it is
  };
  said.timestamp = utc_timestamp;
  if (!on_terminal) return said;
  said.progress = [](std::string_view experiment, std::size_t sample, std::size_t of,
                     std::size_t done, std::size_t experiments, Duration left) {
    if (sample % 16 != 0 && sample != of) return;
    constexpr std::size_t kWidth = 30;
    const std::size_t filled = kWidth * (done * of + sample) / (experiments * of);
    fmt::print(stderr, "\r[{:=<{}}{:{}}] {}/{} {} {}/{} eta {}\033[K", "", filled, "",
               kWidth - filled, done + 1, experiments, experiment, sample, of, as_minutes(left));
    std::fflush(stderr);
  };
  return said;
}

ExitCode run(const SweepArgs& call, World& world) {
  const auto specs = read_specs(call.specs, world.files);
  if (!specs.has_value()) return complain_about(specs.error(), ExitCode::kUsageError);
  if (!call.report.empty()) {
    if (const auto writable = world.files.check_replaceable(call.report); !writable) {
      return complain_about(writable.error(), ExitCode::kUsageError);
    }
  }
  SweepOptions options = call.options;
  options.mode = cache_mode_named(call.cache_mode).value_or(CacheMode::kDryRun);
  options.places = call.data.places();
  const SweepProgress said = voice();
  const auto outcome = run_sweep(*specs, options, world.files, world.clock, said);
  if (said.progress) fmt::print(stderr, "\r\033[K");
  if (!outcome.has_value()) return complain_about(outcome.error(), ExitCode::kUsageError);
  fmt::print("{} experiments run, {} skipped, {} failed; the log is '{}'\n", outcome->ran,
             outcome->skipped, outcome->failed, options.log_file);
  if (!call.report.empty()) {
    const std::string page = sweep_page(outcome->rows);
    const auto written = world.files.replace(call.report, std::as_bytes(std::span(page)));
    if (!written) return complain_about(written.error(), ExitCode::kProblem);
  }
  return outcome->failed == 0 ? ExitCode::kFine : ExitCode::kProblem;
}

}  // namespace

void add_sweep(CLI::App& program, World& world, ExitCode& code) {
  auto call = std::make_shared<SweepArgs>();
  CLI::App* verb = program.add_subcommand(
      "sweep",
      "Run a file of experiments one after the other, and append each to a log that survives\n"
      "whatever ends the process: --resume goes on where it was");
  verb->add_option("--specs", call->specs,
                   R"([{experiment}, …] or {"defaults": {…}, "experiments": [{…}, …]})")
      ->required()
      ->type_name("FILE");
  verb->add_option("--log-file", call->options.log_file, "One row an experiment is appended")
      ->capture_default_str()
      ->type_name("CSV");
  verb->add_option("--samples-dir", call->options.samples_dir,
                   "Write <name>.jsonl with one object a sample")
      ->type_name("DIR");
  verb->add_flag("--resume", call->options.resume,
                 "Skip what is in the log with the same settings and the same data");
  verb->add_option("--cache-mode", call->cache_mode,
                   "dry-run: what matches is counted and not served")
      ->check(CLI::IsMember({"dry-run", "live"}))
      ->capture_default_str();
  verb->add_flag("--purge-cache-between-runs", call->options.purge,
                 "Empty the cache folders of a spec before it runs, if they carry our mark");
  verb->add_option("--report", call->report, "Write a page with the plots")->type_name("OUT.html");
  add_data_flags(*verb, call->data);
  verb->add_option("--questions", call->data.questions, "Of the data set \"generated\"")
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--seed", call->data.seed, "Of the data set \"generated\"")
      ->capture_default_str()
      ->type_name("N");
  verb->footer(
      "Examples:\n"
      "  afterimage experiment --write-gqa gqa/\n"
      "  afterimage sweep --specs examples/experiments/ablation.json --data gqa/ --samples-dir s/\n"
      "  afterimage sweep --specs examples/experiments/ablation.json --data gqa/ --samples-dir s/ "
      "\\\n"
      "      --resume --report sweep.html");
  verb->callback([call, &world, &code] { code = run(*call, world); });
}

}  // namespace afterimage
