// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "foundation/text/csv.h"
#include "lab/experiment/experiment.h"

namespace afterimage {

/// What is said before the first sample: what was loaded, how often keys repeat, and what one
/// should know.
std::string start_text(std::string_view label, const KeyUse& use, const AttachedImages& images,
                       std::span<const std::string> remarks);

/// "[05515938] hit (embedding:prompt) | latency=0.032s | answer match=True", and then what the
/// first semantic cache did not say: the sample's number, microseconds, what each technique made of
/// it. In a dry run it is a match and no hit.
std::string sample_line(const Sample& sample, const SampleResult& result, std::size_t of);

/// Hits, misses, latencies, the share of right answers, sources, techniques, and what was wrong.
std::string summary_text(const ExperimentReport& report, CacheMode mode);

/// Up to `limit` samples with their prompts and answers.
std::string outputs_text(std::span<const Sample> samples, const ExperimentReport& report,
                         std::size_t limit);

/// A table with one row a sample; the columns of the first semantic cache come first.
CsvRow sample_columns();
CsvRow sample_cells(const Sample& sample, const SampleResult& result);

/// The same as one JSON object a line.
std::string samples_jsonl(std::span<const Sample> samples, const ExperimentReport& report);

/// A table with one row an experiment; the columns of the first semantic cache come first.
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

/// For programs: settings, totals, sources, techniques.
std::string to_json(const SweepRow& row);

}  // namespace afterimage
