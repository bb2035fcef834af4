// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
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

/// A record that is not what it should be; the others are used.
struct RejectedRecord {
  std::string id;
  Error error;
};

struct Records {
  std::vector<Sample> samples;
  std::vector<RejectedRecord> rejected;
};

/// GQA as it is published: one object whose names are the questions' ids, each with question,
/// imageId, answer, fullAnswer, groups {global, local}, semantic [{operation, argument}] and
/// semanticStr. A list of such records with an id does as well; that is what video frames are
/// described by.
///
/// Errors   kInvalidArgument: no JSON, or neither an object nor a list.
/// Threads  Any. Cost  Linear; one record at a time is held as JSON.
Result<Records> parse_gqa(std::string_view json);
/// LLaVA's instructions: a list of {id, image, conversations: [{from, value}]}. The first question
/// and its answer are taken; what follows them hangs on what was said before.
Result<Records> parse_llava(std::string_view json);

/// Which part of a split is meant: "val", "val[:100]", "val[10%:20%]".
struct SplitSlice {
  std::string name;
  std::optional<std::int64_t> from, to;  // negative: counted from the end
  bool from_is_percent = false, to_is_percent = false;
};
Result<SplitSlice> parse_split(std::string_view text);

struct DatasetOptions {
  DatasetKind kind = DatasetKind::kGqa;
  std::string data;  // the file with the records, or the folder with it; not for what is made here
  std::string config = "val_balanced_instructions";  // GQA: which of its files
  std::string split = "val";
  std::int64_t max_samples = 128;  // -1: all
  std::int64_t shuffle_seed = 7;   // negative: as they come
  std::size_t questions = 1'000;   // generated: of how many those about pictures are taken
  std::uint64_t seed = 1;          // generated
};

struct Dataset {
  std::string label;  // for a person: what was read, and from where
  std::vector<Sample> samples;
  std::vector<RejectedRecord> rejected;
};

/// Reads or makes the samples, takes the split's slice, shuffles, and keeps the first max_samples,
/// in this order. Nothing is ever fetched. The shuffle is ours, the same on every machine, and not
/// that of other tools for the same seed.
///
/// Errors   kNotFound: no such file, with the names that were tried and what to do; what parsing
///          says; kInvalidArgument: a split that is none, no sample left.
Result<Dataset> load_dataset(const DatasetOptions& options, const Files& files);

/// Six questions in pairs about one picture each, a pair for one technique: the same key; other
/// words, and a key with other marks at its end; the same words, and keys that share nothing.
/// expected_hit says what the second of a pair is for.
Result<std::vector<Sample>> synthetic_samples();

}  // namespace afterimage
