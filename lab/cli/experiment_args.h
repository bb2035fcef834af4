// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lab/experiment/experiment_data.h"

namespace afterimage {

/// Where `experiment` and `sweep` find records and images.
struct DataArgs {
  std::string data;
  std::string image_folder;
  std::size_t questions = 12'000;
  std::uint64_t seed = 1;

  /// The folders of the command line first, then those of the environment.
  [[nodiscard]] DataPlaces places() const;
};

/// Adds --data and --gqa-image-dir.
void add_data_flags(CLI::App& verb, DataArgs& args);

}  // namespace afterimage
