// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/experiment_data.h"

#include <filesystem>
#include <utility>

#include "afterimage/result.h"
#include "lab/experiment/experiment.h"

namespace afterimage {
namespace {

DatasetOptions options_of(const ExperimentSpec& spec, const DataPlaces& places) {
  const auto kind = dataset_named(spec.dataset);
  AFI_CHECK(kind.has_value());
  return {.kind = *kind,
          .config = spec.dataset_config,
          .split = spec.split,
          .max_samples = spec.max_samples,
          .shuffle_seed = spec.shuffle_seed,
          .questions = places.questions,
          .seed = places.seed};
}

std::vector<std::string> roots_of(const DataPlaces& places, const std::string& data,
                                  const Files& files) {
  std::vector<std::string> roots = places.image_roots;
  if (data.empty()) return roots;
  const std::string folder = files.is_folder(data) ? data : path_beside(data, ".");
  roots.push_back(folder + "/images");
  roots.push_back(folder);
  return roots;
}

}  // namespace

std::string records_of(const ExperimentSpec& spec, const DataPlaces& places, const Files& files) {
  if (!spec.data.empty()) return spec.data;
  if (!places.data.empty()) return places.data;
  const DatasetOptions options = options_of(spec, places);
  if (options.kind == DatasetKind::kSynthetic || options.kind == DatasetKind::kGenerated) return {};
  std::vector<std::string> folders;
  for (const std::string& root : places.image_roots) {
    folders.push_back(root);
    const std::filesystem::path images(root.substr(0, root.find_last_not_of('/') + 1));
    folders.push_back(images.has_parent_path() ? images.parent_path().string() : ".");
  }
  return folder_with_records(options, folders, files);
}

Result<ExperimentData> load_experiment_data(const ExperimentSpec& spec, const DataPlaces& places,
                                            const Files& files) {
  DatasetOptions options = options_of(spec, places);
  options.data = records_of(spec, places, files);
  AFI_TRY(Dataset dataset, load_dataset(options, files));
  ImageRoots roots(roots_of(places, options.data, files), files);
  const AttachedImages images = attach_images(dataset.samples, roots);
  std::string hash = data_hash(dataset.samples);
  return ExperimentData{.dataset = std::move(dataset),
                        .roots = std::move(roots),
                        .images = images,
                        .hash = std::move(hash)};
}

}  // namespace afterimage
