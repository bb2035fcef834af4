// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/experiment_data.h"

#include <utility>

#include "afterimage/result.h"
#include "lab/experiment/experiment.h"

namespace afterimage {
namespace {

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

Result<ExperimentData> load_experiment_data(const ExperimentSpec& spec, const DataPlaces& places,
                                            const Files& files) {
  const auto kind = dataset_named(spec.dataset);
  AFI_CHECK(kind.has_value());
  const std::string& data = spec.data.empty() ? places.data : spec.data;
  AFI_TRY(Dataset dataset, load_dataset({.kind = *kind,
                                         .data = data,
                                         .config = spec.dataset_config,
                                         .split = spec.split,
                                         .max_samples = spec.max_samples,
                                         .shuffle_seed = spec.shuffle_seed,
                                         .questions = places.questions,
                                         .seed = places.seed},
                                        files));
  ImageRoots roots(roots_of(places, data, files), files);
  const AttachedImages images = attach_images(dataset.samples, roots);
  std::string hash = data_hash(dataset.samples);
  return ExperimentData{.dataset = std::move(dataset),
                        .roots = std::move(roots),
                        .images = images,
                        .hash = std::move(hash)};
}

}  // namespace afterimage
