// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <vector>

#include "bench/run/run.h"

namespace afterimage {

/// The measures of the three passes: rows of a table, the first of which is its header. The columns
/// are the measure, the passes, and the saving of the last pass over the first.
std::vector<std::vector<std::string>> savings_rows(const RunReport& report);

/// Human-readable: what ran, what was saved, whether the outputs are identical, what failed.
std::string to_table(const RunReport& report);

/// Machine-readable. Times in milliseconds, sizes in bytes.
std::string to_json(const RunReport& report);

}  // namespace afterimage
