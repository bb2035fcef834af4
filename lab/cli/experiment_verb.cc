// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "lab/cli/experiment_args.h"
#include "lab/cli/experiment_engine.h"
#include "lab/cli/verbs.h"
#include "lab/datasets/picture_samples.h"
#include "lab/experiment/answer_trial.h"
#include "lab/experiment/cache_folder.h"
#include "lab/experiment/csv.h"
#include "lab/experiment/experiment.h"
#include "lab/experiment/experiment_report.h"
#include "lab/experiment/sample_log.h"
#include "lab/experiment/sweep.h"

namespace afterimage {
namespace {

struct ExperimentArgs {
  DataArgs data;
  std::string dataset;
  CLI::Option* dataset_option = nullptr;
  std::string serve = "near";
  bool json = false;
  std::string write_gqa;

  // Settings of the spec. `given` lists the options that set one, with how each writes it.
  std::vector<std::pair<CLI::Option*, std::function<void(nlohmann::json&)>>> given;
  ExperimentSpec spec;
  double gigabytes = 0;
  std::int64_t count = 0;
  std::int64_t length = 0;

  std::string cache_mode = "dry-run";
  std::size_t report_limit = 5;
  SampleFiles files;
  bool resume = false;
  std::string summary_log;
  std::string url;  // of --llava-data-url, which is always rejected
  CLI::Option* cache_dir = nullptr;
  CLI::Option* mode_option = nullptr;
  ExperimentEngines engines;
};

MatchLevel level_named(std::string_view name) {
  const auto* const level = std::ranges::find_if(
      kMatchLevels, [&](MatchLevel one) { return to_string(one).ends_with(name); });
  return level == kMatchLevels.end() ? MatchLevel::kExact : *level;
}

QuestionSet generated_questions(const DataArgs& data) {
  return make_question_set({.questions = data.questions,
                            .scenes = std::max<std::size_t>(data.questions / 30, 2),
                            .seed = data.seed});
}

ExitCode run_generated(const ExperimentArgs& args, const World& world) {
  const QuestionSet set = generated_questions(args.data);
  // Matches of looser steps than --serve are counted without being served.
  const auto report = run_trial(
      set, {.text = {.serve = level_named(args.serve), .watch = MatchLevel::kNear}}, world.clock);
  if (!report.has_value()) return report_error("experiment", report.error(), ExitCode::kProblem);
  fmt::print("{}", args.json ? to_json(*report) : to_table(*report));
  return report->unsafe == 0 && (!report->similarity || report->similarity->in_budget())
             ? ExitCode::kFine
             : ExitCode::kProblem;
}

ExitCode write_data_set(const ExperimentArgs& args, World& world) {
  const auto samples = picture_samples(generated_questions(args.data));
  if (!samples.has_value()) return report_error("experiment", samples.error(), ExitCode::kProblem);
  const auto written = write_gqa(args.write_gqa, *samples, world.files);
  if (!written.has_value()) return report_error("experiment", written.error(), ExitCode::kProblem);
  fmt::print("wrote {} questions about images to '{}', in the layout of GQA\n", samples->size(),
             args.write_gqa);
  return ExitCode::kFine;
}

/// The spec of the given flags only; a flag that repeats its default counts as given.
Result<ExperimentSpec> spec_of(const ExperimentArgs& args) {
  nlohmann::json settings{
      {"name", "experiment"}, {"dataset", args.dataset}, {"engine", args.engines.wanted()}};
  for (const auto& [option, put] : args.given) {
    if (option->count() > 0) put(settings);
  }
  if (!settings.contains("model") && !settings.contains("preset")) {
    settings["model"] = args.engines.wanted_model();
  }
  return make_spec(settings.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

/// "auto" becomes a file name of time, data set, key and model, as in the original semantic cache.
std::string log_name(const ExperimentArgs& args, const ExperimentSpec& spec) {
  if (args.files.csv != "auto") return args.files.csv;
  std::string time;
  for (const char c : utc_timestamp()) {
    if (c == 'T') time += '-';
    if (c >= '0' && c <= '9') time += c;
  }
  std::string slug;
  for (const char c : spec.model) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    slug += plain || c == '.' || c == '-' ? c : '-';
  }
  return fmt::format("experiment_logs/{}-{}-{}-{}.csv", time, spec.dataset, spec.chunk_source,
                     slug);
}

/// What a stopped run recorded, with --resume.
Result<std::vector<SampleResult>> recorded_of(const ExperimentArgs& args,
                                              const std::string& settings,
                                              std::span<const Sample> samples, const Files& files) {
  if (!args.resume) return std::vector<SampleResult>{};
  if (args.files.jsonl.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--resume needs --samples-jsonl with the file of the run that was stopped");
  }
  auto recorded = recorded_samples(args.files.jsonl, settings, samples, files);
  if (recorded.has_value() || recorded.error().code != ErrorCode::kNotFound) return recorded;
  return std::vector<SampleResult>{};  // it was stopped before its first sample
}

Result<void> write_summary(const ExperimentArgs& args, const SweepRow& row, Files& files) {
  if (args.summary_log.empty()) return {};
  AFI_TRY(CsvLog log, CsvLog::open(args.summary_log, sweep_columns(), files));
  return log.append(sweep_cells(row));
}

Result<SampleLog> open_log(const ExperimentArgs& args, const ExperimentSpec& spec,
                           const std::string& settings, std::span<const Sample> samples,
                           std::span<const SampleResult> recorded, World& world) {
  SampleFiles files = args.files;
  if (!files.csv.empty()) files.csv = log_name(args, spec);
  if (files.csv.starts_with("experiment_logs/")) {
    AFI_TRY_VOID(world.files.make_folder("experiment_logs"));
  }
  return SampleLog::open(std::move(files), settings, samples, recorded, world.files, world.clock);
}

void print_rejected(const Dataset& dataset) {
  if (dataset.rejected.empty()) return;
  fmt::print(stderr, "afterimage-lab experiment: skipped {} invalid records; the first, {}: {}\n",
             dataset.rejected.size(), dataset.rejected[0].id, dataset.rejected[0].error.message);
}

ExitCode run_samples(ExperimentArgs& args, World& world) {
  const auto spec = spec_of(args);
  if (!spec.has_value()) return report_error("experiment", spec.error(), ExitCode::kUsageError);
  if (const auto loaded = args.engines.load(world.clock); !loaded.has_value()) {
    return report_error("experiment", loaded.error(), ExitCode::kUsageError);
  }
  const CacheMode mode = cache_mode_named(args.cache_mode).value_or(CacheMode::kDryRun);
  const auto data = load_experiment_data(*spec, args.data.places(), world.files);
  if (!data.has_value()) return report_error("experiment", data.error(), ExitCode::kUsageError);
  print_rejected(data->dataset);
  const std::vector<Sample>& samples = data->dataset.samples;
  const auto engine = args.engines.engine_for(*spec, data->roots);
  if (!engine.has_value()) return report_error("experiment", engine.error(), ExitCode::kUsageError);
  const auto encoder = args.engines.encoder_for(*spec);
  if (!encoder.has_value()) {
    return report_error("experiment", encoder.error(), ExitCode::kUsageError);
  }
  if (!args.json) {
    fmt::print("{}", start_text(data->dataset.label, key_use(samples, *spec), data->images,
                                remarks_on(*spec, mode, **engine)));
  }
  const std::string settings = spec_hash(*spec, mode);
  const auto recorded = recorded_of(args, settings, samples, world.files);
  if (!recorded.has_value()) {
    return report_error("experiment", recorded.error(), ExitCode::kUsageError);
  }
  if (!recorded->empty() && !args.json) {
    fmt::print("[info] {} of {} samples were recorded by the run that was stopped\n",
               recorded->size(), samples.size());
  }
  auto log = open_log(args, *spec, settings, samples, *recorded, world);
  if (!log.has_value()) return report_error("experiment", log.error(), ExitCode::kUsageError);
  Result<void> written;
  const auto report = run_experiment(
      *spec, mode, samples,
      {data->roots, world.clock, **engine, *encoder,
       args.cache_dir->count() > 0 ? &world.files : nullptr, *recorded},
      [&](const Sample& sample, const SampleResult& result) {
        if (!args.json) fmt::print("{}", sample_line(sample, result, samples.size()));
        if (written.has_value()) written = log->add(result);
      },
      [&](const ReusedCache& reused) {
        if (!reused.ignored.empty()) {
          fmt::print(stderr, "afterimage-lab experiment: {}\n", reused.ignored);
        }
        if (!args.json) fmt::print("[info] {}\n", reused_text(reused, spec->cache_dir));
      });
  if (!report.has_value()) return report_error("experiment", report.error(), ExitCode::kUsageError);
  const SweepRow row{*spec, mode, *report, data->images, utc_timestamp(), data->hash};
  if (args.json) {
    fmt::print("{}", to_json(row));
  } else {
    fmt::print("\n{}\n{}", summary_text(*report, mode),
               outputs_text(samples, *report, args.report_limit));
  }
  if (written.has_value()) written = log->flush();
  if (written.has_value()) written = write_summary(args, row, world.files);
  if (!written.has_value()) return report_error("experiment", written.error(), ExitCode::kProblem);
  const bool fine = report->totals.wrong_served == 0 && report->totals.failed == 0;
  return fine ? ExitCode::kFine : ExitCode::kProblem;
}

/// The data set, where none is named: gqa if there are records of it, else generated questions.
std::string default_dataset(const ExperimentArgs& args, bool has_settings, const Files& files) {
  ExperimentSpec spec = args.spec;
  spec.dataset = "gqa";
  const bool wants_records = has_settings || !args.data.data.empty();
  return wants_records && !records_of(spec, args.data.places(), files).empty() ? "gqa"
                                                                               : "generated";
}

/// Generated questions run through the trial of match steps and traps, unless a flag is given that
/// only the sample-by-sample experiment supports.
ExitCode run(ExperimentArgs& args, World& world) {
  if (!args.write_gqa.empty()) return write_data_set(args, world);
  const bool has_settings =
      std::ranges::any_of(args.given, [](const auto& one) { return one.first->count() > 0; });
  if (args.dataset_option->count() == 0) {
    args.dataset = default_dataset(args, has_settings, world.files);
  } else if (!args.data.data.empty() &&
             (args.dataset == "generated" || args.dataset == "synthetic")) {
    const std::string said = fmt::format(
        "--data names records, and the data set \"{}\" reads none: leave one of them out",
        args.dataset);
    return report_error("experiment", {ErrorCode::kInvalidArgument, said}, ExitCode::kUsageError);
  }
  if (args.dataset == "generated" && !has_settings && args.mode_option->count() == 0 &&
      args.engines.wanted() == "oracle") {
    return run_generated(args, world);
  }
  return run_samples(args, world);
}

/// Adds a flag that sets one setting of the spec.
template <typename T>
CLI::Option* add_setting(CLI::App& verb, ExperimentArgs& args, const char* flag, const char* name,
                         T& value, const char* help) {
  CLI::Option* option = verb.add_option(flag, value, help);
  args.given.emplace_back(option, [name, &value](nlohmann::json& json) { json[name] = value; });
  return option;
}
CLI::Option* add_switch(CLI::App& verb, ExperimentArgs& args, const char* flag, const char* name,
                        bool value, const char* help) {
  CLI::Option* option = verb.add_flag(flag)->description(help);
  args.given.emplace_back(option, [name, value](nlohmann::json& json) { json[name] = value; });
  return option;
}

void add_cache_settings(CLI::App& verb, ExperimentArgs& args) {
  ExperimentSpec& spec = args.spec;
  add_setting(verb, args, "--preset", "preset", spec.preset,
              "Settings for a model; explicit flags override them")
      ->check(CLI::IsMember({"qwen3-vl-2b", "internvl3.5-2b"}));
  add_setting(verb, args, "--chunk-source", "chunk_source", spec.chunk_source,
              "Which text of a sample is the look-up key")
      ->check(CLI::IsMember({"question", "semantic", "answer", "group", "image", "combined"}))
      ->default_str("semantic");
  add_setting(verb, args, "--chunk-window", "chunk_window", spec.chunk_window,
              "Only the key's first characters count; 0: all of it")
      ->default_str("0")
      ->type_name("N");
  add_setting(verb, args, "--max-cached-blocks", "max_cached_blocks", args.count,
              "Answers kept at a time; the least worth keeping leave")
      ->type_name("N");
  add_setting(verb, args, "--cache-max-size-gb", "cache_max_size_gb", args.gigabytes,
              "Memory of answers and their vectors, in GB (default 4.3)")
      ->type_name("X");
  add_setting(verb, args, "--similarity-threshold", "similarity_threshold",
              spec.similarity_threshold, "Minimum cosine similarity of two keys")
      ->default_str("0.8")
      ->type_name("X");
  add_setting(verb, args, "--embedding-layer", "embedding_layers", spec.embedding_layers,
              "A latent layer with dimensions and threshold (default 0.85); all layers must match")
      ->allow_extra_args(false)
      ->type_name("NAME:DIM[:X]");
  add_setting(
      verb, args, "--embedding-hook", "embedding_hook", spec.embedding_hook,
      "Source of the layers' vectors: none, prompt, vision, prompt_vision; engine: states\n"
      "of the engine (layers vision, prompt, fusion); a shared library as PATH.so:SYMBOL; or\n"
      "Python as package.module:Factory, where Factory() gives a function of a sample that\n"
      "returns {layer: numbers}")
      ->default_str("none");
  add_setting(verb, args, "--prompt-template", "prompt_template", spec.prompt_template,
              "Prompt text with the fields {question}, {image_id}, {answer}, {full_answer},\n"
              "{global_group}, {local_group}, {semantic_str}, {semantic_program}, {dataset_id}");
  add_switch(verb, args, "--disable-exact-cache", "enable_exact_text_cache", false,
             "Disable text matching");
  add_switch(verb, args, "--disable-semantic-cache", "enable_semantic_text_cache", false,
             "Disable similarity matching");
  add_switch(verb, args, "--enable-fusion-cache", "enable_fusion_cache", true,
             "Compare the engine's hidden states of image and question together, with the\n"
             "similarity threshold; needs an engine in this process");
  add_setting(verb, args, "--index-encoder", "index_encoder", spec.index_encoder,
              "What makes the vectors of keys: a GGUF file of an embedding model, or the URL of a\n"
              "server; other names are recorded, and built-in n-grams replace them")
      ->type_name("GGUF|URL");
  add_setting(verb, args, "--images", "images", spec.images,
              "same: compare questions about the same image. similar: also about other images,\n"
              "to measure how wrong that is; in a dry run only")
      ->check(CLI::IsMember({"same", "similar"}))
      ->default_str("same");
}

void add_serving_settings(CLI::App& verb, ExperimentArgs& args) {
  ExperimentSpec& spec = args.spec;
  args.cache_dir = add_setting(
      verb, args, "--cache-dir", "cache_dir", spec.cache_dir,
      "Keep answers, vectors and evidence in this folder: the next run of the same engine and\n"
      "encoders starts with them");
  args.cache_dir->type_name("DIR");
  add_setting(verb, args, "--similarity", "similarity", spec.similarity,
              "threshold: serve every match above the threshold. learned: serve only while the\n"
              "measured error rate is within its budget. watch: count matches, serve none")
      ->check(CLI::IsMember({"threshold", "learned", "watch"}))
      ->default_str("threshold");
  add_switch(verb, args, "--no-vetoes", "vetoes", false,
             "Do not reject similar questions whose wording differs in meaning (negation, "
             "numbers)");
  add_setting(verb, args, "--temperature", "temperature", spec.temperature,
              "Sampling temperature; above 0 nothing is cached or served")
      ->default_str("0");
  add_setting(verb, args, "--max-tokens", "max_tokens", spec.max_tokens,
              "Maximum answer length; "
              "part of the cache scope")
      ->default_str("64");
  args.mode_option = verb.add_option("--cache-mode", args.cache_mode,
                                     "dry-run: matches are counted but not served")
                         ->check(CLI::IsMember({"dry-run", "live"}))
                         ->capture_default_str();
}

void add_data_settings(CLI::App& verb, ExperimentArgs& args) {
  ExperimentSpec& spec = args.spec;
  add_data_flags(verb, args.data);
  add_setting(verb, args, "--dataset-config", "dataset_config", spec.dataset_config,
              "GQA: name of the questions file")
      ->default_str("val_balanced_instructions");
  add_setting(verb, args, "--split", "split", spec.split,
              "Split and slice: val, val[:100], "
              "val[10%:20%]")
      ->default_str("val");
  add_setting(verb, args, "--max-samples", "max_samples", spec.max_samples,
              "Maximum number of "
              "samples; -1: all")
      ->default_str("128")
      ->type_name("N");
  add_setting(verb, args, "--shuffle-seed", "shuffle_seed", spec.shuffle_seed,
              "Random seed of the sample order; negative: file order")
      ->default_str("7")
      ->type_name("N");
  verb.add_option("--llava-data-url", args.url, "Nothing is fetched: --data names the file")
      ->check([](const std::string&) {
        return std::string(
            "nothing is fetched: download the file yourself and pass it with --data");
      })
      ->type_name("URL")
      ->group("");
  verb.add_option("--write-gqa", args.write_gqa,
                  "Write the generated questions about images to a folder in the layout of\n"
                  "GQA, and exit")
      ->type_name("DIR");
}

void add_report_flags(CLI::App& verb, ExperimentArgs& args) {
  add_setting(verb, args, "--experiment-name", "name", args.spec.name,
              "Name of the experiment "
              "in logs")
      ->default_str("experiment");
  verb.add_option("--report-limit", args.report_limit, "Number of samples shown at the end")
      ->capture_default_str()
      ->type_name("N");
  verb.add_option("--log-csv", args.files.csv,
                  "Write one row per sample; auto: "
                  "experiment_logs/<time>-<data>-<key>-<model>.csv")
      ->type_name("FILE");
  verb.add_option("--samples-jsonl", args.files.jsonl, "Write one JSON object per sample")
      ->type_name("FILE");
  verb.add_flag(
      "--resume", args.resume,
      "Continue a run that was stopped: samples that the file of --samples-jsonl has are\n"
      "not asked again");
  verb.add_option("--summary-log", args.summary_log,
                  "Append one summary row, in the format of "
                  "sweep's log")
      ->type_name("FILE");
}

/// Engine options of the original semantic cache: accepted and written to the logs, not used.
void add_engine_settings(CLI::App& verb, ExperimentArgs& args) {
  ExperimentSpec& spec = args.spec;
  const auto only_recorded = [](CLI::Option* option) { option->group("Recorded only"); };
  only_recorded(add_setting(verb, args, "--model", "model", spec.model,
                            "Model name, part of the cache scope; a server is asked for it"));
  only_recorded(add_setting(verb, args, "--tensor-parallel-size", "tensor_parallel_size",
                            spec.tensor_parallel_size, ""));
  only_recorded(add_switch(verb, args, "--trust-remote-code", "trust_remote_code", true, ""));
  only_recorded(
      add_setting(verb, args, "--fusion-cache-dir", "fusion_cache_dir", spec.fusion_cache_dir, ""));
  only_recorded(add_setting(verb, args, "--index-encoder-device", "index_encoder_device",
                            spec.index_encoder_device, ""));
  only_recorded(add_setting(verb, args, "--gpu-memory-utilization", "gpu_memory_utilization",
                            spec.gpu_memory_utilization, ""));
  only_recorded(add_setting(verb, args, "--max-model-len", "max_model_len", args.length, ""));
  for (const char* flag : {"--disable-log-stats", "--keep-cache-dirs"}) {
    only_recorded(verb.add_flag(flag));
  }
}

}  // namespace

void add_experiment(CLI::App& program, World& world, ExitCode& code) {
  auto args = std::make_shared<ExperimentArgs>();
  CLI::App* verb = program.add_subcommand(
      "experiment",
      "Run questions with known answers, and traps among them, through the answer cache: count\n"
      "what each match level serves, and check that no answer is wrong");
  args->dataset_option =
      verb->add_option("--dataset", args->dataset,
                       "generated: questions about generated scenes, with known answers;\n"
                       "gqa, llava150k, video_frames: your own files; synthetic: six fixed "
                       "questions\n(default: gqa if there are records of it, else generated)")
          ->check(CLI::IsMember({"generated", "gqa", "llava150k", "video_frames", "synthetic"}));
  verb->add_option("--questions", args->data.questions, "Number of generated questions")
      ->check(CLI::Range(std::size_t{1}, std::size_t{10'000'000}))
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--seed", args->data.seed, "Random seed of the generated questions")
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--serve", args->serve,
                   "The loosest match level that may serve generated "
                   "questions")
      ->check(CLI::IsMember({"exact", "canonical", "near"}))
      ->capture_default_str();
  verb->add_flag("--json", args->json, "Print JSON instead of text");
  args->engines.add_option(*verb);
  add_cache_settings(*verb, *args);
  add_serving_settings(*verb, *args);
  add_data_settings(*verb, *args);
  add_report_flags(*verb, *args);
  add_engine_settings(*verb, *args);
  verb->footer(
      "Examples:\n"
      "  afterimage-lab experiment\n"
      "  afterimage-lab experiment --questions 100000 --seed 7 --json\n"
      "  afterimage-lab experiment --preset internvl3.5-2b --dataset synthetic --cache-mode live\n"
      "  afterimage-lab experiment --dataset gqa --data gqa/ --engine http://127.0.0.1:8000/v1 "
      "--model "
      "M\n"
      "  afterimage-lab experiment --dataset gqa --data gqa/ --max-samples 64 --chunk-source "
      "question\n"
      "\n"
      "Exit code 1: a wrong answer or a trap was served, or a sample failed.");
  verb->callback([args, &world, &code] { code = run(*args, world); });
}

}  // namespace afterimage
