// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "foundation/platform/wall_clocks.h"
#include "lab/experiment/cache_folder.h"
#include "lab/experiment/experiment.h"
#include "lab/experiment/experiment_report.h"

namespace afterimage {
namespace {

/// Two experiments use the same samples if their keys are equal.
std::string data_key(const ExperimentSpec& spec) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", spec.dataset, spec.data, spec.dataset_config,
                     spec.split, spec.max_samples, spec.shuffle_seed);
}

class Sweep {
 public:
  Sweep(const SweepOptions& options, Files& files, const Clock& clock,
        const SweepProgress& progress, CsvLog log, std::size_t experiments)
      : options_(options),
        files_(files),
        clock_(clock),
        progress_(progress),
        log_(std::move(log)),
        experiments_(experiments) {}

  void run(const ExperimentSpec& spec) {
    const auto done = run_or_skip(spec);
    if (!done.has_value()) {
      ++outcome_.failed;
      progress_.say(fmt::format("[failed] {}: {}", spec.name, done.error().message));
    }
    ++done_;
  }

  SweepOutcome outcome(std::span<const ExperimentSpec> specs) && {
    const std::size_t name = log_.column("experiment");
    for (const ExperimentSpec& spec : specs) {
      const CsvRow* last = nullptr;
      for (const CsvRow& row : log_.rows()) {
        if (row[name] == spec.name) last = &row;
      }
      if (last != nullptr) outcome_.rows.push_back(*last);
    }
    return std::move(outcome_);
  }

 private:
  /// Whether the log has this experiment with the same spec and data.
  bool is_logged(const ExperimentSpec& spec, const std::string& hash) {
    const std::string settings = spec_hash(spec, options_.mode);
    bool under_name = false;
    for (const CsvRow& row : log_.rows()) {
      if (row[log_.column("experiment")] != spec.name) continue;
      under_name = true;
      if (row[log_.column("spec_hash")] == settings && row[log_.column("data_hash")] == hash) {
        return true;
      }
    }
    if (under_name) {
      progress_.say(fmt::format(
          "[again] Experiment '{}' was logged with other settings or data: it runs again.",
          spec.name));
    }
    return false;
  }

  Result<const ExperimentData*> data_of(const ExperimentSpec& spec) {
    std::string key = data_key(spec);
    if (data_.has_value() && data_key_ == key) return &*data_;
    data_.reset();  // first free the old data set: two may not fit into memory
    AFI_TRY(data_, load_experiment_data(spec, options_.places, files_));
    data_key_ = std::move(key);
    for (std::size_t i = 0; i < std::min<std::size_t>(data_->dataset.rejected.size(), 1); ++i) {
      progress_.say(fmt::format("[warn] {} records are invalid; the first, {}: {}",
                                data_->dataset.rejected.size(), data_->dataset.rejected[i].id,
                                data_->dataset.rejected[i].error.message));
    }
    return &*data_;
  }

  void purge(const ExperimentSpec& spec) {
    for (const std::string& folder : {spec.cache_dir, spec.fusion_cache_dir}) {
      Result<void> made = make_cache_folder(folder, files_);
      if (made.has_value()) {
        const Result<bool> purged = purge_cache_folder(folder, files_);
        if (!purged.has_value()) made = std::unexpected(purged.error());
      }
      if (!made.has_value() && refused_.insert(folder).second) {
        progress_.say("[warn] " + made.error().message);
      }
    }
  }

  Result<void> run_or_skip(const ExperimentSpec& spec) {
    AFI_TRY(const ExperimentData* data, data_of(spec));
    if (options_.resume && is_logged(spec, data->hash)) {
      ++outcome_.skipped;
      progress_.say(fmt::format("[skip] Experiment '{}' already logged.", spec.name));
      return {};
    }
    progress_.say(fmt::format("=== Running experiment: {} ===", spec.name));
    if (options_.purge) purge(spec);
    std::unique_ptr<SampleEngine> engine = std::make_unique<OracleEngine>();
    if (options_.engine) {
      AFI_TRY(engine, options_.engine(spec, data->roots));
    }
    say_remarks(spec, *data, *engine);
    AFI_TRY(const ExperimentReport report, ask(spec, *data, *engine));
    const SweepRow row{spec,         options_.mode,         report,
                       data->images, progress_.timestamp(), data->hash};
    AFI_TRY_VOID(write_samples(spec, *data, report));
    AFI_TRY_VOID(log_.append(sweep_cells(row)));
    ++outcome_.ran;
    say_done(spec, report.totals);
    return {};
  }

  /// Prints each remark once per sweep.
  void say_remarks(const ExperimentSpec& spec, const ExperimentData& data,
                   const SampleEngine& engine) {
    std::vector<std::string> remarks = remarks_on(spec, options_.mode, engine);
    if (data.images.missing > 0) {
      remarks.push_back(fmt::format("{} samples are asked without their image; the first: {}",
                                    data.images.missing, data.images.first_missing));
    }
    for (const std::string& remark : remarks) {
      if (remarked_.insert(remark).second) progress_.say("[info] " + remark);
    }
  }

  Result<ExperimentReport> ask(const ExperimentSpec& spec, const ExperimentData& data,
                               SampleEngine& engine) {
    Embedder* encoder = nullptr;
    if (options_.encoder) {
      AFI_TRY(encoder, options_.encoder(spec));
    }
    const std::vector<Sample>& samples = data.dataset.samples;
    return run_experiment(spec, options_.mode, samples, {data.roots, clock_, engine, encoder},
                          [&](const Sample& /*sample*/, const SampleResult& result) {
                            ++samples_done_;
                            if (!progress_.progress) return;
                            progress_.progress(spec.name, result.sample + 1, samples.size(), done_,
                                               experiments_,
                                               left(result.sample + 1, samples.size()));
                          });
  }

  /// Estimates the remaining time from the average so far, assuming that later experiments have as
  /// many samples as this one.
  Duration left(std::size_t sample, std::size_t of) const {
    const double to_do = static_cast<double>((experiments_ - done_) * of - sample);
    const double so_far = static_cast<double>((clock_.now() - began_).count());
    return Duration(
        static_cast<Duration::rep>(so_far / static_cast<double>(samples_done_) * to_do));
  }

  Result<void> write_samples(const ExperimentSpec& spec, const ExperimentData& data,
                             const ExperimentReport& report) {
    if (options_.samples_dir.empty()) return {};
    const std::string settings = spec_hash(spec, options_.mode);
    std::string lines;
    for (const SampleResult& result : report.samples) {
      lines += sample_json(data.dataset.samples[result.sample], result, settings);
    }
    return files_.replace(fmt::format("{}/{}.jsonl", options_.samples_dir, spec.name),
                          std::as_bytes(std::span(lines)));
  }

  void say_done(const ExperimentSpec& spec, const ExperimentTotals& totals) {
    const auto percent = [&](std::uint64_t part) {
      return totals.prompts == 0
                 ? 0.0
                 : 100 * static_cast<double>(part) / static_cast<double>(totals.prompts);
    };
    const std::string accuracy =
        totals.judged == 0 ? "n/a"
                           : fmt::format("{:.3f}", static_cast<double>(totals.correct) /
                                                       static_cast<double>(totals.judged));
    std::string line = fmt::format("[done] {}: prompts={} hits={} ({:.1f}%) accuracy={}", spec.name,
                                   totals.prompts, totals.served, percent(totals.served), accuracy);
    if (options_.mode == CacheMode::kDryRun) {
      line += fmt::format(" matched={} ({:.1f}%) wrong if served={}", totals.matched_not_used,
                          percent(totals.matched_not_used), totals.wrong_matched);
    } else {
      line += fmt::format(" served wrong={}", totals.wrong_served);
    }
    if (totals.failed > 0) line += fmt::format(" without an answer={}", totals.failed);
    progress_.say(line);
  }

  const SweepOptions& options_;
  Files& files_;
  const Clock& clock_;
  const SweepProgress& progress_;
  CsvLog log_;
  std::size_t experiments_;
  std::size_t done_ = 0;
  std::size_t samples_done_ = 0;
  Duration began_ = clock_.now();
  std::optional<ExperimentData> data_;
  std::string data_key_;
  std::set<std::string> refused_;
  std::set<std::string> remarked_;
  SweepOutcome outcome_;
};

}  // namespace

std::vector<std::string> same_outcomes(std::span<const CsvRow> rows) {
  const CsvRow columns = sweep_columns();
  const auto cell = [&](const CsvRow& row, std::string_view column) {
    return row[static_cast<std::size_t>(std::ranges::find(columns, column) - columns.begin())];
  };
  std::map<std::string, std::vector<std::string>> by_outcome;
  for (const CsvRow& row : rows) {
    by_outcome[cell(row, "outcome")].push_back(cell(row, "experiment"));
  }
  std::vector<std::string> same;
  for (const auto& [outcome, names] : by_outcome) {
    if (names.size() > 1) same.push_back(fmt::format("{}", fmt::join(names, " = ")));
  }
  return same;
}

Result<SweepOutcome> run_sweep(std::span<const ExperimentSpec> specs, const SweepOptions& options,
                               Files& files, const Clock& clock, const SweepProgress& progress) {
  AFI_TRY(CsvLog log, CsvLog::open(options.log_file, sweep_columns(), files));
  AFI_TRY_VOID(files.check_replaceable(options.log_file));
  if (!options.samples_dir.empty()) AFI_TRY_VOID(files.make_folder(options.samples_dir));
  Sweep sweep(options, files, clock, progress, std::move(log), specs.size());
  for (const ExperimentSpec& spec : specs) sweep.run(spec);
  return std::move(sweep).outcome(specs);
}

std::string utc_timestamp() { return rfc3339(SystemWallClock().now()).substr(0, 19) + "Z"; }

}  // namespace afterimage
