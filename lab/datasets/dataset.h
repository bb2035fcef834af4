// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "foundation/platform/files.h"
#include "lab/datasets/sample.h"

namespace afterimage {

enum class DatasetKind : unsigned char { kGqa, kLlava, kVideoFrames, kSynthetic, kGenerated };
/// "gqa", "llava150k", "video_frames", "synthetic", "generated".
std::string_view to_string(DatasetKind kind);
std::optional<DatasetKind> dataset_named(std::string_view name);

/// An invalid record; the others are used.
struct RejectedRecord {
  std::string id;
  Error error;
};

struct Records {
  std::vector<Sample> samples;
  std::vector<RejectedRecord> rejected;
};

/// Parses GQA in its published form: an object keyed by question id, with records of question,
/// imageId, answer, fullAnswer, groups {global, local}, semantic [{operation, argument}] and
/// semanticStr. Also accepts a list of such records with an id, the form of the video-frames data
/// set.
///
/// Errors   kInvalidArgument: not JSON, or neither an object nor a list.
/// Threads  Any.
/// Cost     Linear; one record at a time is held as JSON.
Result<Records> parse_gqa(std::string_view json);
/// Parses LLaVA's instructions: a list of {id, image, conversations: [{from, value}]}. Takes only
/// the first question and its answer; later turns depend on earlier ones.
Result<Records> parse_llava(std::string_view json);

/// A slice of a split: "val", "val[:100]", "val[10%:20%]".
struct SplitSlice {
  std::string name;
  std::optional<std::int64_t> from, to;  // negative: counted from the end
  bool from_is_percent = false, to_is_percent = false;
};
Result<SplitSlice> parse_split(std::string_view text);

struct DatasetOptions {
  DatasetKind kind = DatasetKind::kGqa;
  std::string data;  // file or folder with the records; unused for generated data
  /// GQA: which of its files; "val" in it becomes the split's name.
  std::string config = "val_balanced_instructions";
  std::string split = "val";
  std::int64_t max_samples = 128;  // -1: all
  std::int64_t shuffle_seed = 7;   // negative: file order
  /// Generated: size of the question set, from which image questions are taken.
  std::size_t questions = 1'000;
  std::uint64_t seed = 1;  // generated
};

struct Dataset {
  std::string label;  // human-readable: what was read and from where
  std::vector<Sample> samples;
  std::vector<RejectedRecord> rejected;
};

/// Reads or generates the samples, takes the split's slice, shuffles, and takes the first
/// max_samples, in this order. Nothing is fetched. The shuffle is deterministic on every machine
/// and differs from other tools' shuffle for the same seed.
///
/// Errors   kNotFound: no such file, with the names that were tried; parsing errors;
///          kInvalidArgument: an invalid split, or no sample left.
Result<Dataset> load_dataset(const DatasetOptions& options, const Files& files);

/// The first of the folders that has the records of these options; empty: none has.
std::string folder_with_records(const DatasetOptions& options, std::span<const std::string> folders,
                                const Files& files);

/// Six questions in pairs about one image each, one pair per technique: equal keys; other words
/// with keys that differ in final punctuation; equal words with unrelated keys. expected_hit names
/// the technique for the second of each pair.
Result<std::vector<Sample>> synthetic_samples();

}  // namespace afterimage
