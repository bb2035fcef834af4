// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/sample_log.h"

#include <fmt/format.h>

#include <chrono>
#include <string_view>
#include <utility>

#include "lab/experiment/csv.h"
#include "lab/experiment/experiment_report.h"

namespace afterimage {
namespace {

constexpr Duration kWait = std::chrono::seconds(1);
constexpr Bytes kMostRecorded = 4_GiB;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

SampleLog::SampleLog(SampleFiles paths, std::string settings, std::span<const Sample> samples,
                     Files& files, const Clock& clock)
    : paths_(std::move(paths)),
      settings_(std::move(settings)),
      samples_(samples),
      files_(&files),
      clock_(&clock),
      flushed_at_(clock.now()) {}

Result<SampleLog> SampleLog::open(SampleFiles paths, std::string settings,
                                  std::span<const Sample> samples,
                                  std::span<const SampleResult> recorded, Files& files,
                                  const Clock& clock) {
  SampleLog log(std::move(paths), std::move(settings), samples, files, clock);
  log.rows_ = csv_record(sample_columns());
  for (const SampleResult& result : recorded) log.put(result);
  if (!log.paths_.csv.empty()) AFI_TRY_VOID(files.replace(log.paths_.csv, bytes_of(log.rows_)));
  if (!log.paths_.jsonl.empty()) {
    AFI_TRY_VOID(files.replace(log.paths_.jsonl, bytes_of(log.lines_)));
  }
  log.rows_.clear();
  log.lines_.clear();
  return log;
}

void SampleLog::put(const SampleResult& result) {
  const Sample& sample = samples_[result.sample];
  if (!paths_.csv.empty()) rows_ += csv_record(sample_cells(sample, result));
  if (!paths_.jsonl.empty()) lines_ += sample_json(sample, result, settings_);
}

Result<void> SampleLog::add(const SampleResult& result) {
  put(result);
  return clock_->now() - flushed_at_ < kWait ? Result<void>() : flush();
}

Result<void> SampleLog::flush() {
  flushed_at_ = clock_->now();
  if (!rows_.empty()) AFI_TRY_VOID(files_->append(paths_.csv, bytes_of(rows_)));
  rows_.clear();
  if (!lines_.empty()) AFI_TRY_VOID(files_->append(paths_.jsonl, bytes_of(lines_)));
  lines_.clear();
  return {};
}

Result<std::vector<SampleResult>> recorded_samples(const std::string& jsonl,
                                                   const std::string& settings,
                                                   std::span<const Sample> samples,
                                                   const Files& files) {
  AFI_TRY(const std::vector<std::byte> content, files.read(jsonl, kMostRecorded));
  std::string_view left(reinterpret_cast<const char*>(content.data()), content.size());
  std::vector<SampleResult> recorded;
  for (std::size_t end = left.find('\n'); end != std::string_view::npos; end = left.find('\n')) {
    const std::size_t index = recorded.size();
    Result<SampleResult> result = fail(ErrorCode::kInvalidArgument, "the data has no such sample");
    if (index < samples.size()) {
      result = sample_from_json(left.substr(0, end), samples[index], settings);
    }
    if (!result.has_value()) {
      return fail(result.error().code,
                  fmt::format("'{}', line {}: {}", jsonl, index + 1, result.error().message));
    }
    result->sample = index;
    recorded.push_back(*std::move(result));
    left.remove_prefix(end + 1);
  }
  return recorded;
}

}  // namespace afterimage
