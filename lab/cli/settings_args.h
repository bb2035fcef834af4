// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "afterimage/result.h"
#include "foundation/platform/files.h"

namespace afterimage {

/// Sets each flag that the command line leaves out to its value in the settings file.
/// `--encode-rate` in the group "Node" is `encode_rate` in `[node]`. Flags outside groups are not
/// settings.
/// Errors   those of parse_simulation_settings, and kInvalidArgument: the flag rejects the value.
Result<void> take_settings(CLI::App& verb, const std::string& file, const Files& files);

/// All settings with their current values, as a file that take_settings reads.
std::string settings_text(CLI::App& verb);

}  // namespace afterimage
