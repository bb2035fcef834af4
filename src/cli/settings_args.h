// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "afterimage/result.h"
#include "foundation/platform/files.h"

namespace afterimage {

/// The flags of a verb, as a file of settings says them: `--encode-rate` of the group "Node" is
/// `encode_rate` in `[node]`. Flags outside groups are no settings.
///
/// Gives what the file says to each flag that the call leaves out, as if it had been written there.
/// Errors: of parse_simulation_settings, and what the flag itself would not take.
Result<void> take_settings(CLI::App& verb, const std::string& file, const Files& files);

/// All of them with what they are now, as a file that take_settings reads.
std::string settings_text(CLI::App& verb);

}  // namespace afterimage
