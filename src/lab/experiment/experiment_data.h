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

/// Where samples and pictures come from, besides what a spec says.
struct DataPlaces {
  std::string data;                      // for specs that name no data
  std::vector<std::string> image_roots;  // in order
  std::size_t questions = 1'000;         // of the generated data set
  std::uint64_t seed = 1;
};

/// What an experiment asks: samples with their pictures found, in the order of asking.
struct ExperimentData {
  Dataset dataset;
  ImageRoots roots;
  AttachedImages images;
  std::string hash;
};

/// Reads the samples of a spec and looks for their pictures below the roots, then in the folder
/// "images" beside the records, then beside the records themselves.
///
/// Errors   As load_dataset. A picture that is not there is counted and no error.
Result<ExperimentData> load_experiment_data(const ExperimentSpec& spec, const DataPlaces& places,
                                            const Files& files);

}  // namespace afterimage
