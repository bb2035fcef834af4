// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

/// One setting of a file: what a flag of the same name would be given.
struct SimulationSetting {
  std::string key;                  // "node.memory": its section and its name
  std::vector<std::string> values;  // as text; several of a list
  bool list = false;
  std::uint64_t line = 0;  // in the file

  bool operator==(const SimulationSetting&) const = default;
};

/// Settings from TOML, in order of their keys. What the values mean is for the caller to say.
///
/// Errors   kInvalidArgument: not TOML, a key that is not among `known`, a value that is neither a
///          text, a finite number, true or false, nor a list of these. All at once, each with file
///          and line, and with what there is.
Result<std::vector<SimulationSetting>> parse_simulation_settings(
    std::string_view toml, std::string_view file, std::span<const std::string> known);

/// What is written about a setting in a file of all of them.
struct DescribedSetting {
  SimulationSetting setting;  // without values: it is shown and not set
  std::string comment;
};
/// TOML that parse_simulation_settings reads. Those of a section stand together.
std::string print_simulation_settings(std::span<const DescribedSetting> settings);

}  // namespace afterimage
