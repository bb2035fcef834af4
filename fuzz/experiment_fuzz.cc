// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are samples, experiments, a split and a table, or an error with a message; parsed
// samples have a prompt and keys, and survive being written as a table.
#include <cstdint>
#include <span>
#include <string_view>

#include "afterimage/result.h"
#include "lab/datasets/answer_match.h"
#include "lab/datasets/chunk_source.h"
#include "lab/datasets/dataset.h"
#include "lab/datasets/prompt.h"
#include "lab/experiment/csv.h"
#include "lab/experiment/experiment.h"
#include "lab/experiment/spec.h"

using namespace afterimage;

namespace {

template <typename T>
bool is_read(const Result<T>& read) {
  if (!read.has_value()) AFI_CHECK(!read.error().message.empty());
  return read.has_value();
}

void use(const Records& records, std::string_view text) {
  for (const Sample& sample : records.samples) {
    AFI_CHECK(!sample.question.empty());
    for (const ChunkSource source : kChunkSources) AFI_CHECK(!chunk_text(sample, source).empty());
    (void)render_prompt(text, sample);
    (void)answer_matches(text, sample.answer);
  }
  for (const RejectedRecord& rejected : records.rejected)
    AFI_CHECK(!rejected.error.message.empty());
  AFI_CHECK(data_hash(records.samples).size() == 64);
}

void use(const CsvRecords& table) {
  std::string again;
  for (const CsvRow& row : table.rows) again += csv_record(row);
  const CsvRecords same = parse_csv(again);
  AFI_CHECK(same.rows == table.rows && same.bytes == again.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto records = parse_gqa(text); is_read(records)) use(*records, text);
  if (const auto records = parse_llava(text); is_read(records)) use(*records, text);
  if (const auto specs = parse_specs(text); is_read(specs)) {
    for (const ExperimentSpec& spec : *specs) {
      AFI_CHECK(spec_hash(spec, CacheMode::kLive).size() == 64);
    }
  }
  (void)is_read(parse_split(text));
  (void)is_read(parse_layer(text));
  use(parse_csv(text));
  (void)answer_matches(text, text);
  return 0;
}
