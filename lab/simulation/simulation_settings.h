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

/// One setting of a file, equivalent to the flag of the same name.
struct SimulationSetting {
  std::string key;                  // "node.memory": section and name
  std::vector<std::string> values;  // as text; several if it is a list
  bool list = false;
  std::uint64_t line = 0;  // in the file

  bool operator==(const SimulationSetting&) const = default;
};

/// Parses TOML settings, in order of keys. The caller interprets the values.
///
/// Errors   kInvalidArgument: not TOML; a key that is not in `known`; a value that is not a string,
///          a finite number, a boolean or a list of these. All problems at once, each with file and
///          line and with the valid names.
Result<std::vector<SimulationSetting>> parse_simulation_settings(
    std::string_view toml, std::string_view file, std::span<const std::string> known);

/// A setting and its comment in a printed settings file.
struct DescribedSetting {
  SimulationSetting setting;  // without values: printed as a comment, not set
  std::string comment;
};
/// TOML that parse_simulation_settings() reads, grouped by section.
std::string print_simulation_settings(std::span<const DescribedSetting> settings);

}  // namespace afterimage
