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
#include <vector>

#include "cli/output.h"
#include "foundation/platform/terminal.h"
#include "lab/cli/experiment_args.h"
#include "lab/cli/experiment_engine.h"
#include "lab/cli/verbs.h"
#include "lab/datasets/picture_samples.h"
#include "lab/experiment/ablation.h"
#include "lab/experiment/experiment_report.h"
#include "lab/experiment/sweep.h"
#include "lab/experiment/sweep_page.h"

namespace afterimage {
namespace {

constexpr Bytes kMaxSpecs = 16_MiB;

struct SweepArgs {
  std::string specs;
  std::string folder;  // of an ablation
  bool json = false;
  SweepOptions options;
  std::string cache_mode = "dry-run";
  std::string report;
  DataArgs data;
  ExperimentEngines engines;
};

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

/// Lines are printed to `out`.
SweepProgress make_progress(std::FILE* out) {
  const bool on_terminal = standard_error_is_terminal();
  SweepProgress progress;
  progress.say = [on_terminal, out](const std::string& line) {
    if (on_terminal) fmt::print(stderr, "\r\033[K");
    fmt::print(out, "{}\n", line);
    std::fflush(out);  // so that the log of a long sweep shows how far it is
  };
  progress.timestamp = utc_timestamp;
  if (!on_terminal) return progress;
  progress.progress = [](std::string_view experiment, std::size_t sample, std::size_t of,
                         std::size_t done, std::size_t experiments, Duration left) {
    if (sample % 16 != 0 && sample != of) return;
    constexpr std::size_t kWidth = 30;
    const std::size_t filled = kWidth * (done * of + sample) / (experiments * of);
    fmt::print(stderr, "\r[{:=<{}}{:{}}] {}/{} {} {}/{} eta {}\033[K", "", filled, "",
               kWidth - filled, done + 1, experiments, experiment, sample, of, as_minutes(left));
    std::fflush(stderr);
  };
  return progress;
}

ExitCode run(SweepArgs& args, World& world) {
  std::FILE* const out = args.json ? stderr : stdout;
  auto specs = read_specs(args.specs, world.files);
  if (!specs.has_value()) return report_error("sweep", specs.error(), ExitCode::kUsageError);
  if (!args.report.empty()) {
    if (const auto writable = world.files.check_replaceable(args.report); !writable) {
      return report_error("sweep", writable.error(), ExitCode::kUsageError);
    }
  }
  SweepOptions options = args.options;
  options.mode = cache_mode_named(args.cache_mode).value_or(CacheMode::kDryRun);
  options.places = args.data.places();
  if (const auto loaded = args.engines.load(world.clock); !loaded.has_value()) {
    return report_error("sweep", loaded.error(), ExitCode::kUsageError);
  }
  for (ExperimentSpec& spec : *specs) {
    if (spec.engine.empty()) spec.engine = args.engines.wanted();
  }
  options.engine = [&engines = args.engines](const ExperimentSpec& spec, const ImageRoots& images) {
    return engines.engine_for(spec, images);
  };
  options.encoder = [&engines = args.engines](const ExperimentSpec& spec) {
    return engines.encoder_for(spec);
  };
  const SweepProgress progress = make_progress(out);
  const auto outcome = run_sweep(*specs, options, world.files, world.clock, progress);
  if (progress.progress) fmt::print(stderr, "\r\033[K");
  if (!outcome.has_value()) return report_error("sweep", outcome.error(), ExitCode::kUsageError);
  fmt::print(out, "{} experiments run, {} skipped, {} failed; the log is '{}'\n", outcome->ran,
             outcome->skipped, outcome->failed, options.log_file);
  const std::vector<std::string> same = same_outcomes(outcome->rows);
  if (outcome->rows.size() > 1 && same.empty()) {
    fmt::print(out, "no two of the {} experiments had the same outcome\n", outcome->rows.size());
  }
  for (const std::string& names : same) fmt::print(out, "the same outcome: {}\n", names);
  if (args.json) fmt::print("{}", to_json(outcome->rows));
  if (!args.report.empty()) {
    const std::string page = sweep_page(outcome->rows);
    const auto written = world.files.replace(args.report, std::as_bytes(std::span(page)));
    if (!written) return report_error("sweep", written.error(), ExitCode::kProblem);
  }
  return outcome->failed == 0 ? ExitCode::kFine : ExitCode::kProblem;
}

/// Makes what is missing in the folder: questions with images, and the specs. Both may be edited.
Result<void> prepare_ablation(SweepArgs& args, Files& files) {
  AFI_TRY_VOID(files.make_folder(args.folder));
  args.data.data = args.folder + "/gqa";
  if (!files.is_folder(args.data.data)) {
    AFI_TRY(const auto samples, picture_samples(make_question_set(
                                    {.questions = args.data.questions,
                                     .scenes = std::max<std::size_t>(args.data.questions / 30, 2),
                                     .seed = args.data.seed})));
    AFI_TRY_VOID(write_gqa(args.data.data, samples, files));
  }
  args.specs = args.folder + "/specs.json";
  args.options.log_file = args.folder + "/log.csv";
  args.options.samples_dir = args.folder + "/samples";
  args.report = args.folder + "/report.html";
  if (read_specs(args.specs, files).has_value()) return {};
  const std::string specs = ablation_specs();
  return files.replace(args.specs, std::as_bytes(std::span(specs)));
}

ExitCode run_ablation(SweepArgs& args, World& world) {
  if (const auto prepared = prepare_ablation(args, world.files); !prepared.has_value()) {
    return report_error("ablation", prepared.error(), ExitCode::kUsageError);
  }
  const ExitCode code = run(args, world);
  if (code == ExitCode::kFine) fmt::print(stderr, "the report is '{}'\n", args.report);
  return code;
}

void add_mode_flags(CLI::App& verb, SweepArgs& args) {
  args.engines.add_option(verb);
  verb.add_option("--cache-mode", args.cache_mode, "dry-run: matches are counted but not served")
      ->check(CLI::IsMember({"dry-run", "live"}))
      ->capture_default_str();
  verb.add_flag("--json", args.json, "Print the rows of the log as JSON, and progress on stderr");
}

}  // namespace

void add_ablation(CLI::App& program, World& world, ExitCode& code) {
  auto args = std::make_shared<SweepArgs>();
  args->options.resume = true;
  CLI::App* verb = program.add_subcommand(
      "ablation",
      "Make generated questions about images and 32 experiments with them, run all, and write a\n"
      "report. Experiments that the folder's log holds are not run again");
  verb->add_option(
          "FOLDER", args->folder,
          "Where gqa/, specs.json, log.csv, samples/ and report.html are written; files that it\n"
          "has are used")
      ->required();
  add_mode_flags(*verb, *args);
  verb->add_option("--questions", args->data.questions, "Number of generated questions")
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--seed", args->data.seed, "Random seed of the generated questions")
      ->capture_default_str()
      ->type_name("N");
  verb->footer(
      "Examples:\n"
      "  afterimage-lab ablation ablation/\n"
      "  afterimage-lab ablation seer/ --engine build/models/seer.gguf --cache-mode live");
  verb->callback([args, &world, &code] { code = run_ablation(*args, world); });
}

void add_sweep(CLI::App& program, World& world, ExitCode& code) {
  auto args = std::make_shared<SweepArgs>();
  CLI::App* verb = program.add_subcommand(
      "sweep",
      "Run a file of experiments one after the other and append each result to a log that\n"
      "survives a crash; --resume continues where the last run stopped");
  verb->add_option("--specs", args->specs,
                   R"([{experiment}, …] or {"defaults": {…}, "experiments": [{…}, …]})")
      ->required()
      ->type_name("FILE");
  add_mode_flags(*verb, *args);
  verb->add_option("--log-file", args->options.log_file,
                   "Log to append to, one row per "
                   "experiment")
      ->capture_default_str()
      ->type_name("CSV");
  verb->add_option("--samples-dir", args->options.samples_dir,
                   "Write <name>.jsonl for each experiment, one object per sample")
      ->type_name("DIR");
  verb->add_flag("--resume", args->options.resume,
                 "Skip experiments that the log holds with the same settings and data");
  verb->add_flag(
      "--purge-cache-between-runs", args->options.purge,
      "Before each experiment, empty those of its cache folders marked with .afterimage-cache");
  verb->add_option("--report", args->report, "Write an HTML page with the plots")
      ->type_name("OUT.html");
  add_data_flags(*verb, args->data);
  verb->add_option("--questions", args->data.questions,
                   "Number of questions in the data set \"generated\"")
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--seed", args->data.seed, "Random seed of the data set \"generated\"")
      ->capture_default_str()
      ->type_name("N");
  verb->footer(
      "Examples:\n"
      "  afterimage-lab experiment --write-gqa gqa/\n"
      "  afterimage-lab sweep --specs examples/experiments/ablation.json --data gqa/ --samples-dir "
      "s/\n"
      "  afterimage-lab sweep --specs examples/experiments/ablation.json --data gqa/ --samples-dir "
      "s/ "
      "\\\n"
      "      --resume --report sweep.html");
  verb->callback([args, &world, &code] { code = run(*args, world); });
}

}  // namespace afterimage
