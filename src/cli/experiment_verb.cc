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

#include "cli/experiment_args.h"
#include "cli/verbs.h"
#include "foundation/platform/environment.h"
#include "foundation/text/csv.h"
#include "lab/datasets/picture_samples.h"
#include "lab/experiment/answer_trial.h"
#include "lab/experiment/cache_folder.h"
#include "lab/experiment/experiment.h"
#include "lab/experiment/experiment_report.h"

namespace afterimage {
namespace {

struct ExperimentArgs {
  DataArgs data;
  std::string dataset = "generated";
  std::string serve = "near";
  bool json = false;
  std::string write_gqa;

  // Settings of a spec; those that were said are in `said`.
  std::vector<std::pair<CLI::Option*, std::function<void(nlohmann::json&)>>> said;
  ExperimentSpec spec;
  double gigabytes = 0;
  std::int64_t count = 0;
  std::int64_t length = 0;

  std::string cache_mode = "dry-run";
  std::size_t report_limit = 5;
  std::string log_csv;
  std::string summary_log;
  std::string samples_jsonl;
  std::string address;  // that nothing is fetched from
  CLI::Option* mode_option = nullptr;
};

ExitCode complain_of(const Error& error, ExitCode code) {
  fmt::print(stderr, "afterimage experiment: {}\n", error.message);
  return code;
}

TextRung rung_named(std::string_view name) {
  const auto* const rung = std::ranges::find_if(
      kTextRungs, [&](TextRung one) { return to_string(one).ends_with(name); });
  return rung == kTextRungs.end() ? TextRung::kExact : *rung;
}

QuestionSet generated_questions(const DataArgs& data) {
  return make_question_set({.questions = data.questions,
                            .scenes = std::max<std::size_t>(data.questions / 30, 2),
                            .seed = data.seed});
}

ExitCode try_questions(const ExperimentArgs& call, const World& world) {
  const QuestionSet set = generated_questions(call.data);
  // What is beyond the rung that serves is watched, so that its matches are counted too.
  const auto report = run_trial(
      set, {.text = {.serve = rung_named(call.serve), .watch = TextRung::kNear}}, world.clock);
  if (!report.has_value()) return complain_of(report.error(), ExitCode::kProblem);
  fmt::print("{}", call.json ? to_json(*report) : to_table(*report));
  return report->unsafe == 0 && (!report->similarity || report->similarity->in_budget())
             ? ExitCode::kFine
             : ExitCode::kProblem;
}

ExitCode write_data_set(const ExperimentArgs& call, World& world) {
  const auto samples = picture_samples(generated_questions(call.data));
  if (!samples.has_value()) return complain_of(samples.error(), ExitCode::kProblem);
  const auto written = write_gqa(call.write_gqa, *samples, world.files);
  if (!written.has_value()) return complain_of(written.error(), ExitCode::kProblem);
  fmt::print("wrote {} questions about pictures to '{}', as GQA is published\n", samples->size(),
             call.write_gqa);
  return ExitCode::kFine;
}

/// What was said, and nothing else: a flag that says the default is said all the same.
Result<ExperimentSpec> spec_of(const ExperimentArgs& call) {
  nlohmann::json settings{{"name", "experiment"}, {"dataset", call.dataset}};
  for (const auto& [option, put] : call.said) {
    if (option->count() > 0) put(settings);
  }
  if (!settings.contains("model") && !settings.contains("preset")) {
    settings["model"] = "Qwen/Qwen3-VL-2B-Instruct";
  }
  return make_spec(settings.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

/// "auto": a name of the time, the data set, the key and the model, as the first semantic cache
/// made it.
std::string log_name(const ExperimentArgs& call, const ExperimentSpec& spec) {
  if (call.log_csv != "auto") return call.log_csv;
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

Result<void> write_samples_table(const std::string& path, const ExperimentData& data,
                                 const ExperimentReport& report, Files& files) {
  std::string text = csv_record(sample_columns());
  for (const SampleResult& result : report.samples) {
    text += csv_record(sample_cells(data.dataset.samples[result.sample], result));
  }
  if (path.starts_with("experiment_logs/")) AFI_TRY_VOID(files.make_folder("experiment_logs"));
  return files.replace(path, std::as_bytes(std::span(text)));
}

Result<void> write_logs(const ExperimentArgs& call, const ExperimentData& data, const SweepRow& row,
                        Files& files) {
  if (!call.log_csv.empty()) {
    AFI_TRY_VOID(write_samples_table(log_name(call, row.spec), data, row.report, files));
  }
  if (!call.samples_jsonl.empty()) {
    const std::string lines = samples_jsonl(data.dataset.samples, row.report);
    AFI_TRY_VOID(files.replace(call.samples_jsonl, std::as_bytes(std::span(lines))));
  }
  if (!call.summary_log.empty()) {
    AFI_TRY(CsvLog log, CsvLog::open(call.summary_log, sweep_columns(), files));
    AFI_TRY_VOID(log.append(sweep_cells(row)));
  }
  return {};
}

void say_rejected(const Dataset& dataset) {
  if (dataset.rejected.empty()) return;
  fmt::print(stderr, "afterimage experiment: {} records are no samples; the first, {}: {}\n",
             dataset.rejected.size(), dataset.rejected[0].id, dataset.rejected[0].error.message);
}

ExitCode ask_samples(const ExperimentArgs& call, World& world) {
  const auto spec = spec_of(call);
  if (!spec.has_value()) return complain_of(spec.error(), ExitCode::kUsageError);
  const CacheMode mode = cache_mode_named(call.cache_mode).value_or(CacheMode::kDryRun);
  const auto data = load_experiment_data(*spec, call.data.places(), world.files);
  if (!data.has_value()) return complain_of(data.error(), ExitCode::kUsageError);
  say_rejected(data->dataset);
  const std::vector<Sample>& samples = data->dataset.samples;
  if (!call.json) {
    fmt::print("{}", start_text(data->dataset.label, key_use(samples, spec->source), data->images,
                                remarks_on(*spec, mode)));
  }
  OracleEngine oracle;
  const auto report =
      run_experiment(*spec, mode, samples, {data->roots, world.clock, oracle},
                     [&](const Sample& sample, const SampleResult& result) {
                       if (!call.json)
                         fmt::print("{}", sample_line(sample, result, samples.size()));
                     });
  if (!report.has_value()) return complain_of(report.error(), ExitCode::kUsageError);
  const SweepRow row{*spec, mode, *report, data->images, utc_timestamp(), data->hash};
  if (call.json) {
    fmt::print("{}", to_json(row));
  } else {
    fmt::print("\n{}\n{}", summary_text(*report, mode),
               outputs_text(samples, *report, call.report_limit));
  }
  const auto written = write_logs(call, *data, row, world.files);
  if (!written.has_value()) return complain_of(written.error(), ExitCode::kProblem);
  const bool fine = report->totals.wrong_served == 0 && report->totals.failed == 0;
  return fine ? ExitCode::kFine : ExitCode::kProblem;
}

/// The generated questions go through the trial of rungs and traps, unless something is said that
/// only the experiment of one sample after the other knows.
ExitCode run(const ExperimentArgs& call, World& world) {
  if (!call.write_gqa.empty()) return write_data_set(call, world);
  const bool says_settings =
      std::ranges::any_of(call.said, [](const auto& one) { return one.first->count() > 0; });
  if (call.dataset == "generated" && !says_settings && call.mode_option->count() == 0) {
    return try_questions(call, world);
  }
  return ask_samples(call, world);
}

/// A flag that is a setting of a spec.
template <typename T>
CLI::Option* add_setting(CLI::App& verb, ExperimentArgs& call, const char* flag, const char* name,
                         T& value, const char* help) {
  CLI::Option* option = verb.add_option(flag, value, help);
  call.said.emplace_back(option, [name, &value](nlohmann::json& json) { json[name] = value; });
  return option;
}
CLI::Option* add_switch(CLI::App& verb, ExperimentArgs& call, const char* flag, const char* name,
                        bool means, const char* help) {
  CLI::Option* option = verb.add_flag(flag)->description(help);
  call.said.emplace_back(option, [name, means](nlohmann::json& json) { json[name] = means; });
  return option;
}

void add_cache_settings(CLI::App& verb, ExperimentArgs& call) {
  ExperimentSpec& spec = call.spec;
  add_setting(verb, call, "--preset", "preset", spec.preset,
              "Settings that belong to a model; flags that are given come before them")
      ->check(CLI::IsMember({"qwen3-vl-2b", "internvl3.5-2b"}));
  add_setting(verb, call, "--chunk-source", "chunk_source", spec.chunk_source,
              "The text of a sample that its answer is looked up by")
      ->check(CLI::IsMember({"question", "semantic", "answer", "group", "image", "combined"}))
      ->default_str("semantic");
  add_setting(verb, call, "--similarity-threshold", "similarity_threshold",
              spec.similarity_threshold, "How alike two keys must be (cosine)")
      ->default_str("0.8")
      ->type_name("X");
  add_setting(verb, call, "--embedding-layer", "embedding_layers", spec.embedding_layers,
              "A latent layer; all of them have to agree. Threshold 0.85 if it is not said")
      ->allow_extra_args(false)
      ->type_name("NAME:DIM[:X]");
  add_setting(verb, call, "--embedding-hook", "embedding_hook", spec.embedding_hook,
              "Who makes the layers' vectors: none, prompt, vision, prompt_vision,\n"
              "or a shared library as PATH.so:SYMBOL")
      ->default_str("none");
  add_setting(verb, call, "--prompt-template", "prompt_template", spec.prompt_template,
              "With {question}, {image_id}, {answer}, {full_answer}, {global_group},\n"
              "{local_group}, {semantic_str}, {semantic_program}, {dataset_id}");
  add_switch(verb, call, "--disable-exact-cache", "enable_exact_text_cache", false,
             "No rungs of text");
  add_switch(verb, call, "--disable-semantic-cache", "enable_semantic_text_cache", false,
             "No likeness of keys");
  add_switch(verb, call, "--enable-fusion-cache", "enable_fusion_cache", true,
             "Said and skipped: there is no fusion provider");
  add_setting(verb, call, "--similarity", "similarity", spec.similarity,
              "threshold: whatever is alike enough is served. learned: while it is known to be\n"
              "right often enough. watch: never")
      ->check(CLI::IsMember({"threshold", "learned", "watch"}))
      ->default_str("threshold");
  add_switch(verb, call, "--no-vetoes", "vetoes", false,
             "Do not ask in what the words of neighbours differ");
  add_setting(verb, call, "--temperature", "temperature", spec.temperature,
              "Above 0 nothing is kept or served")
      ->default_str("0");
  add_setting(verb, call, "--max-tokens", "max_tokens", spec.max_tokens, "Part of the scope")
      ->default_str("64");
  call.mode_option = verb.add_option("--cache-mode", call.cache_mode,
                                     "dry-run: what matches is counted and not served")
                         ->check(CLI::IsMember({"dry-run", "live"}))
                         ->capture_default_str();
}

void add_data_settings(CLI::App& verb, ExperimentArgs& call) {
  ExperimentSpec& spec = call.spec;
  add_data_flags(verb, call.data);
  add_setting(verb, call, "--dataset-config", "dataset_config", spec.dataset_config,
              "GQA: which of its files")
      ->default_str("val_balanced_instructions");
  add_setting(verb, call, "--split", "split", spec.split, "val, val[:100], val[10%:20%]")
      ->default_str("val");
  add_setting(verb, call, "--max-samples", "max_samples", spec.max_samples, "-1: all")
      ->default_str("128")
      ->type_name("N");
  add_setting(verb, call, "--shuffle-seed", "shuffle_seed", spec.shuffle_seed,
              "Negative: in their order")
      ->default_str("7")
      ->type_name("N");
  verb.add_option("--llava-data-url", call.address, "Nothing is fetched: --data names the file")
      ->check([](const std::string&) {
        return std::string("nothing is fetched: bring the file here and name it with --data");
      })
      ->type_name("URL")
      ->group("");
  verb.add_option("--write-gqa", call.write_gqa,
                  "Write the generated questions about pictures to a folder, as GQA is\n"
                  "published, and do nothing else")
      ->type_name("DIR");
}

void add_report_flags(CLI::App& verb, ExperimentArgs& call) {
  add_setting(verb, call, "--experiment-name", "name", call.spec.name, "In logs")
      ->default_str("experiment");
  verb.add_option("--report-limit", call.report_limit, "Samples shown at the end")
      ->capture_default_str()
      ->type_name("N");
  verb.add_option("--log-csv", call.log_csv,
                  "One row a sample; auto: experiment_logs/<time>-<data>-<key>-<model>.csv")
      ->type_name("FILE");
  verb.add_option("--samples-jsonl", call.samples_jsonl, "One object a sample")->type_name("FILE");
  verb.add_option("--summary-log", call.summary_log, "Append one row, as a sweep does")
      ->type_name("FILE");
}

/// What the first semantic cache told its engine: read and written into logs.
void add_engine_settings(CLI::App& verb, ExperimentArgs& call) {
  ExperimentSpec& spec = call.spec;
  const auto only_recorded = [](CLI::Option* option) { option->group("Recorded only"); };
  only_recorded(
      add_setting(verb, call, "--model", "model", spec.model, "Part of the scope; it is not run"));
  only_recorded(add_setting(verb, call, "--tensor-parallel-size", "tensor_parallel_size",
                            spec.tensor_parallel_size, ""));
  only_recorded(add_switch(verb, call, "--trust-remote-code", "trust_remote_code", true, ""));
  only_recorded(
      add_setting(verb, call, "--max-cached-blocks", "max_cached_blocks", call.count, ""));
  only_recorded(add_setting(verb, call, "--cache-dir", "cache_dir", spec.cache_dir, ""));
  only_recorded(
      add_setting(verb, call, "--fusion-cache-dir", "fusion_cache_dir", spec.fusion_cache_dir, ""));
  only_recorded(
      add_setting(verb, call, "--cache-max-size-gb", "cache_max_size_gb", call.gigabytes, ""));
  only_recorded(
      add_setting(verb, call, "--index-encoder", "index_encoder", spec.index_encoder, ""));
  only_recorded(add_setting(verb, call, "--index-encoder-device", "index_encoder_device",
                            spec.index_encoder_device, ""));
  only_recorded(add_setting(verb, call, "--gpu-memory-utilization", "gpu_memory_utilization",
                            spec.gpu_memory_utilization, ""));
  only_recorded(add_setting(verb, call, "--max-model-len", "max_model_len", call.length, ""));
  for (const char* flag : {"--disable-log-stats", "--keep-cache-dirs"}) {
    only_recorded(verb.add_flag(flag));
  }
}

}  // namespace

void add_experiment(CLI::App& program, World& world, ExitCode& code) {
  auto call = std::make_shared<ExperimentArgs>();
  CLI::App* verb = program.add_subcommand(
      "experiment",
      "Ask questions whose true answers are known through the answer cache, and traps among\n"
      "them: which rung serves how many, and is any answer wrong?");
  verb->add_option("--dataset", call->dataset,
                   "generated: rendered and told scenes with a graph of all that is true;\n"
                   "gqa, llava150k, video_frames: files of yours; synthetic: six questions")
      ->check(CLI::IsMember({"generated", "gqa", "llava150k", "video_frames", "synthetic"}))
      ->capture_default_str();
  verb->add_option("--questions", call->data.questions, "How many are generated")
      ->check(CLI::Range(std::size_t{1}, std::size_t{10'000'000}))
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--seed", call->data.seed, "Another seed, other questions")
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--serve", call->serve, "The loosest rung that may serve generated questions")
      ->check(CLI::IsMember({"exact", "canonical", "near"}))
      ->capture_default_str();
  verb->add_flag("--json", call->json, "For programs");
  add_cache_settings(*verb, *call);
  add_data_settings(*verb, *call);
  add_report_flags(*verb, *call);
  add_engine_settings(*verb, *call);
  verb->footer(
      "Examples:\n"
      "  afterimage experiment\n"
      "  afterimage experiment --questions 100000 --seed 7 --json\n"
      "  afterimage experiment --preset internvl3.5-2b --dataset synthetic --cache-mode live\n"
      "  afterimage experiment --dataset gqa --data gqa/ --max-samples 64 --chunk-source question\n"
      "\n"
      "Exit code 1: a wrong answer was served, or a trap, or there was no answer.");
  verb->callback([call, &world, &code] { code = run(*call, world); });
}

}  // namespace afterimage
