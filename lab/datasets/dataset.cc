// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/datasets/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>

#include "foundation/platform/random.h"
#include "foundation/text/json_lines.h"
#include "lab/datasets/picture_samples.h"

namespace afterimage {
namespace {

using Json = nlohmann::json;
using TakeRecord = std::function<Result<Sample>(const std::string& id, const Json& record)>;

constexpr Bytes kMaxRecords = 2_GiB;

/// Reads an object of records by id, or a list of them, one record at a time.
Result<Records> read_records(std::string_view json, const TakeRecord& take) {
  Records read;
  std::string id;
  std::size_t number = 0;
  const auto callback = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key) id = parsed.get<std::string>();
    if (depth != 1 || event != Json::parse_event_t::object_end) return true;
    ++number;
    auto sample = take(id, parsed);
    if (sample.has_value()) {
      read.samples.push_back(*std::move(sample));
    } else {
      read.rejected.push_back({.id = id.empty() ? fmt::format("record {}", number) : id,
                               .error = std::move(sample).error()});
    }
    return false;  // drop the record: such files can be larger than memory
  };
  const Json whole = Json::parse(json, callback, /*allow_exceptions=*/false);
  if (whole.is_discarded()) return malformed("this is not JSON, or it is truncated");
  if (!whole.is_structured()) return malformed("this is neither an object nor a list of records");
  return read;
}

/// A field as text: empty if it is absent or null; a number as it is written.
Result<std::string> text_field(const Json& record, const char* name) {
  const auto it = record.find(name);
  if (it == record.end() || it->is_null()) return "";
  if (it->is_number()) return it->dump();
  if (!it->is_string()) return malformed(fmt::format("\"{}\" is not text", name));
  return it->get<std::string>();
}

const Json* object_field(const Json& record, const char* name) {
  const auto it = record.find(name);
  return it != record.end() && it->is_object() ? &*it : nullptr;
}

void collect_image_names(const Json& record, Sample& sample) {
  for (const char* name : {"image_path", "image", "path"}) {
    const auto it = record.find(name);
    if (it != record.end() && it->is_string()) sample.image_names.push_back(it->get<std::string>());
  }
}

/// The record's key, or its own id.
Result<std::string> id_of(const std::string& key, const Json& record) {
  return key.empty() ? text_field(record, "id") : Result<std::string>(key);
}

Result<void> read_semantic(const Json& record, Sample& sample) {
  const auto it = record.find("semantic");
  if (it == record.end() || !it->is_array()) return {};
  for (const Json& step : *it) {
    if (!step.is_object()) return malformed("\"semantic\" is not a list of operations");
    SemanticStep read;
    AFI_TRY(read.operation, text_field(step, "operation"));
    AFI_TRY(read.argument, text_field(step, "argument"));
    sample.semantic.push_back(std::move(read));
  }
  return {};
}

Result<Sample> gqa_sample(const std::string& id, const Json& record) {
  Sample sample;
  AFI_TRY(sample.dataset_id, id_of(id, record));
  AFI_TRY(sample.question, text_field(record, "question"));
  if (sample.question.empty()) return malformed("\"question\" is missing");
  AFI_TRY(sample.image_id, text_field(record, "imageId"));
  AFI_TRY(sample.answer, text_field(record, "answer"));
  AFI_TRY(sample.full_answer, text_field(record, "fullAnswer"));
  AFI_TRY(sample.semantic_str, text_field(record, "semanticStr"));
  AFI_TRY(sample.chunk_override, text_field(record, "_chunk_override"));
  if (const Json* groups = object_field(record, "groups"); groups != nullptr) {
    AFI_TRY(sample.global_group, text_field(*groups, "global"));
    AFI_TRY(sample.local_group, text_field(*groups, "local"));
  }
  AFI_TRY_VOID(read_semantic(record, sample));
  collect_image_names(record, sample);
  if (const Json* more = object_field(record, "metadata"); more != nullptr) {
    collect_image_names(*more, sample);
    if (const Json* extra = object_field(*more, "extra"); extra != nullptr) {
      collect_image_names(*extra, sample);
    }
    AFI_TRY(sample.expected_hit, text_field(*more, "expected_hit"));
    sample.metadata = more->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return sample;
}

/// The text of a turn of a LLaVA conversation, which must be from `from`.
Result<std::string> turn(const Json& conversations, std::size_t index, std::string_view from) {
  if (conversations.size() <= index || !conversations[index].is_object()) {
    return malformed(fmt::format("the conversation has no turn from \"{}\"", from));
  }
  AFI_TRY(const std::string speaker, text_field(conversations[index], "from"));
  if (speaker != from) {
    return malformed(
        fmt::format("turn {} is from \"{}\", not from \"{}\"", index + 1, speaker, from));
  }
  return text_field(conversations[index], "value");
}

/// Removes the image placeholder, which is not part of the question.
std::string without_picture_mark(std::string text) {
  constexpr std::string_view kMark = "<image>";
  if (const auto at = text.find(kMark); at != std::string::npos) text.erase(at, kMark.size());
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

Result<Sample> llava_sample(const std::string& id, const Json& record) {
  Sample sample;
  AFI_TRY(sample.dataset_id, id_of(id, record));
  const auto conversations = record.find("conversations");
  if (conversations == record.end() || !conversations->is_array()) {
    return malformed("\"conversations\" is missing or not a list");
  }
  AFI_TRY(const std::string asked, turn(*conversations, 0, "human"));
  AFI_TRY(sample.answer, turn(*conversations, 1, "gpt"));
  sample.question = without_picture_mark(asked);
  if (sample.question.empty()) return malformed("the first turn is empty");
  sample.full_answer = sample.answer;
  collect_image_names(record, sample);
  if (!sample.image_names.empty()) {  // COCO's name without its extension
    sample.image_id = sample.image_names.front().substr(0, sample.image_names.front().rfind('.'));
  }
  return sample;
}

/// The published file names of a GQA configuration. Its files begin with the split: "val_balanced_…"
/// of the split "train" is "train_balanced_…".
std::vector<std::string> gqa_stems(std::string config, std::string_view split) {
  constexpr std::string_view kDefaultSplit = "val_";
  if (!split.empty() && config.starts_with(kDefaultSplit)) {
    config.replace(0, kDefaultSplit.size() - 1, split);
  }
  std::vector<std::string> stems{config};
  constexpr std::string_view kHosted = "_instructions";
  if (config.ends_with(kHosted)) {
    stems.insert(stems.begin(), config.substr(0, config.size() - kHosted.size()) + "_questions");
  }
  return stems;
}

/// A set too large for one file is a folder of shards: stem_0.json, stem_1.json, …
std::vector<std::string> shards(const std::string& folder, const std::string& stem,
                                const Files& files) {
  const auto names = files.list(folder + "/" + stem);
  std::vector<std::pair<std::uint32_t, std::string>> found;
  for (const std::string& name : names.value_or(std::vector<std::string>{})) {
    std::uint32_t number = 0;
    const char* const end = name.data() + name.size();
    if (!name.starts_with(stem + "_")) continue;
    const auto [rest, error] = std::from_chars(name.data() + stem.size() + 1, end, number);
    if (error != std::errc() || std::string_view(rest, end) != ".json") continue;
    found.emplace_back(number, fmt::format("{}/{}/{}", folder, stem, name));
  }
  std::ranges::sort(found);
  std::vector<std::string> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

constexpr const char* kNotFetched =
    "Nothing is fetched: put the data set on this machine and pass its file or folder with --data, "
    "or set GQA_IMAGE_ROOT to its folder of images, beside the records";

/// The files with the records: the given file, or the files with the usual names in the folder.
Result<std::vector<std::string>> record_files(const DatasetOptions& options, std::string_view split,
                                              const Files& files) {
  if (options.data.empty()) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{} needs its records. {}", to_string(options.kind), kNotFetched));
  }
  if (!files.is_folder(options.data)) return std::vector{options.data};
  const std::vector<std::string> stems =
      options.kind == DatasetKind::kGqa     ? gqa_stems(options.config, split)
      : options.kind == DatasetKind::kLlava ? std::vector<std::string>{"llava_instruct_150k"}
                                            : std::vector<std::string>{"video_frames_dataset"};
  std::vector<std::string> tried;
  for (const std::string& stem : stems) {
    const auto names = files.list(options.data);
    const std::string name = stem + ".json";
    if (names.has_value() && std::ranges::find(*names, name) != names->end()) {
      return std::vector{options.data + "/" + name};
    }
    std::vector<std::string> parts = shards(options.data, stem, files);
    if (!parts.empty()) return parts;
    tried.push_back(name);
    tried.push_back(fmt::format("{0}/{0}_0.json", stem));
  }
  return fail(ErrorCode::kNotFound, fmt::format("'{}' has none of {}. {}", options.data,
                                                fmt::join(tried, ", "), kNotFetched));
}

Result<Dataset> read_dataset(const DatasetOptions& options, std::string_view split,
                             const Files& files) {
  AFI_TRY(const std::vector<std::string> paths, record_files(options, split, files));
  Dataset dataset{.label = fmt::format("{} ({})", to_string(options.kind), fmt::join(paths, ", "))};
  for (const std::string& path : paths) {
    AFI_TRY(const std::vector<std::byte> content, files.read(path, kMaxRecords));
    const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
    auto records = options.kind == DatasetKind::kLlava ? parse_llava(text) : parse_gqa(text);
    if (!records.has_value()) {
      return fail(records.error().code, fmt::format("'{}': {}", path, records.error().message));
    }
    std::ranges::move(records->samples, std::back_inserter(dataset.samples));
    std::ranges::move(records->rejected, std::back_inserter(dataset.rejected));
  }
  return dataset;
}

Result<Dataset> read_or_make(const DatasetOptions& options, std::string_view split,
                             const Files& files) {
  if (options.kind == DatasetKind::kSynthetic) {
    AFI_TRY(std::vector<Sample> samples, synthetic_samples());
    return Dataset{.label = "synthetic", .samples = std::move(samples)};
  }
  if (options.kind == DatasetKind::kGenerated) {
    AFI_TRY(std::vector<Sample> samples,
            picture_samples(
                make_question_set({.questions = options.questions,
                                   .scenes = std::max<std::size_t>(options.questions / 30, 2),
                                   .seed = options.seed})));
    return Dataset{.label = "generated", .samples = std::move(samples)};
  }
  return read_dataset(options, split, files);
}

std::size_t place(std::optional<std::int64_t> at, bool percent, std::size_t all,
                  std::size_t otherwise) {
  if (!at.has_value()) return otherwise;
  const auto size = static_cast<std::int64_t>(all);
  std::int64_t index = percent ? *at * size / 100 : *at;
  if (*at < 0) index += size;
  return static_cast<std::size_t>(std::clamp<std::int64_t>(index, 0, size));
}

void take_slice(std::vector<Sample>& samples, const SplitSlice& slice) {
  const std::size_t from = place(slice.from, slice.from_is_percent, samples.size(), 0);
  const std::size_t to = place(slice.to, slice.to_is_percent, samples.size(), samples.size());
  samples.resize(std::max(from, to));
  samples.erase(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(from));
}

void shuffle(std::vector<Sample>& samples, std::uint64_t seed) {
  Rng rng(seed);
  for (std::size_t i = samples.size(); i > 1; --i) std::swap(samples[i - 1], samples[rng.below(i)]);
}

Result<void> read_bound(std::string_view text, std::optional<std::int64_t>& value, bool& percent) {
  if (text.empty()) return {};
  percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::int64_t limit = percent ? 100 : 1'000'000'000'000;
  if (error != std::errc() || end != text.data() + text.size() || number > limit ||
      number < -limit) {
    return malformed(fmt::format("\"{}\" is not a number of samples", text));
  }
  value = number;
  return {};
}

}  // namespace

std::string_view to_string(DatasetKind kind) {
  constexpr std::array<std::string_view, 5> kNames{"gqa", "llava150k", "video_frames", "synthetic",
                                                   "generated"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::optional<DatasetKind> dataset_named(std::string_view name) {
  for (unsigned kind = 0; kind <= static_cast<unsigned>(DatasetKind::kGenerated); ++kind) {
    if (to_string(static_cast<DatasetKind>(kind)) == name) return static_cast<DatasetKind>(kind);
  }
  return std::nullopt;
}

Result<Records> parse_gqa(std::string_view json) { return read_records(json, gqa_sample); }

Result<Records> parse_llava(std::string_view json) { return read_records(json, llava_sample); }

Result<SplitSlice> parse_split(std::string_view text) {
  SplitSlice slice;
  const std::size_t open = std::min(text.find('['), text.size());
  slice.name = text.substr(0, open);
  if (open == text.size()) return slice;
  const std::size_t colon = text.find(':', open);
  if (!text.ends_with(']') || colon == std::string_view::npos) {
    return malformed(
        fmt::format("\"{}\" is not a split: use val, val[:100] or val[10%:20%]", text));
  }
  AFI_TRY_VOID(
      read_bound(text.substr(open + 1, colon - open - 1), slice.from, slice.from_is_percent));
  AFI_TRY_VOID(
      read_bound(text.substr(colon + 1, text.size() - colon - 2), slice.to, slice.to_is_percent));
  return slice;
}

std::string folder_with_records(const DatasetOptions& options, std::span<const std::string> folders,
                                const Files& files) {
  const auto split = parse_split(options.split);
  if (!split.has_value()) return {};
  for (const std::string& folder : folders) {
    DatasetOptions here = options;
    here.data = folder;
    if (files.is_folder(folder) && record_files(here, split->name, files)) return folder;
  }
  return {};
}

Result<Dataset> load_dataset(const DatasetOptions& options, const Files& files) {
  AFI_TRY(const SplitSlice slice, parse_split(options.split));
  AFI_TRY(Dataset dataset, read_or_make(options, slice.name, files));
  const bool in_order = options.kind == DatasetKind::kSynthetic || options.shuffle_seed < 0;
  if (options.kind != DatasetKind::kSynthetic) take_slice(dataset.samples, slice);
  if (!in_order) shuffle(dataset.samples, static_cast<std::uint64_t>(options.shuffle_seed));
  if (options.max_samples >= 0 &&
      dataset.samples.size() > static_cast<std::size_t>(options.max_samples)) {
    dataset.samples.resize(static_cast<std::size_t>(options.max_samples));
  }
  if (dataset.samples.empty()) {
    const std::string first =
        dataset.rejected.empty()
            ? ""
            : fmt::format("; {} were rejected, the first ({}) because {}", dataset.rejected.size(),
                          dataset.rejected[0].id, dataset.rejected[0].error.message);
    return malformed(fmt::format("{} gives no sample for split \"{}\" and at most {}{}",
                                 dataset.label, options.split, options.max_samples, first));
  }
  return dataset;
}

}  // namespace afterimage
