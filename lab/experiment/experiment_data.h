// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "foundation/platform/files.h"
#include "lab/datasets/dataset.h"
#include "lab/datasets/image_roots.h"
#include "lab/experiment/spec.h"

namespace afterimage {

/// Sources of samples and images that are not part of a spec.
struct DataPlaces {
  std::string data;                      // for specs that name no data
  std::vector<std::string> image_roots;  // in order of search
  std::size_t questions = 1'000;         // size of the generated data set
  std::uint64_t seed = 1;
};

/// The samples of an experiment with their images, in order.
struct ExperimentData {
  Dataset dataset;
  ImageRoots roots;
  AttachedImages images;
  std::string hash;
};

/// The file or folder with the records of a spec: the spec's own, that of the places, or the first
/// folder with such records among those of the images and those above them. Empty: there is none.
std::string records_of(const ExperimentSpec& spec, const DataPlaces& places, const Files& files);

/// Reads the samples of a spec and searches their images below the roots, then in the folder
/// "images" beside the records, then beside the records.
///
/// Errors   Those of load_dataset(). A missing image is counted and is not an error.
Result<ExperimentData> load_experiment_data(const ExperimentSpec& spec, const DataPlaces& places,
                                            const Files& files);

}  // namespace afterimage
