// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lab/experiment/csv.h"
#include "lab/experiment/experiment.h"

namespace afterimage {

/// The text before the first sample: what was loaded, how often keys repeat, and the remarks.
std::string start_text(std::string_view label, const KeyUse& use, const AttachedImages& images,
                       std::span<const std::string> remarks);

/// "[05515938] hit (embedding:prompt) | latency=0.032s | answer match=True", followed by what the
/// first semantic cache did not print: the sample's number, microseconds, the result of each
/// technique. In a dry run it says match instead of hit.
std::string sample_line(const Sample& sample, const SampleResult& result, std::size_t of);

/// Hits, misses, latencies, share of right answers, sources, techniques, wrong answers.
std::string summary_text(const ExperimentReport& report, CacheMode mode);

/// Up to `limit` samples with their prompts and answers.
std::string outputs_text(std::span<const Sample> samples, const ExperimentReport& report,
                         std::size_t limit);

/// A CSV table with one row per sample; the columns of the first semantic cache come first.
CsvRow sample_columns();
CsvRow sample_cells(const Sample& sample, const SampleResult& result);

/// The same as JSON, on one line. `settings`: spec_hash() of the experiment.
std::string sample_json(const Sample& sample, const SampleResult& result,
                        const std::string& settings);
/// The result in such a line; without its index. kInvalidArgument: not such a line, or of other
/// settings or of another sample.
Result<SampleResult> sample_from_json(std::string_view line, const Sample& sample,
                                      const std::string& settings);

/// A CSV table with one row per experiment; the columns of the first semantic cache come first.
CsvRow sweep_columns();
struct SweepRow {
  const ExperimentSpec& spec;
  CacheMode mode;
  const ExperimentReport& report;
  const AttachedImages& images;
  std::string timestamp;  // UTC
  std::string data_hash;
};
CsvRow sweep_cells(const SweepRow& row);

/// Machine-readable: settings, totals, sources, techniques.
std::string to_json(const SweepRow& row);
/// Of rows of sweep_columns(): a list.
std::string to_json(std::span<const CsvRow> rows);

}  // namespace afterimage
