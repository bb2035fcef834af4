// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>

#include "lab/run/run.h"

namespace afterimage {

/// Human-readable: what ran, what was saved, whether the outputs are identical, what failed.
std::string to_table(const RunReport& report);

/// Machine-readable. Times in milliseconds, sizes in bytes.
std::string to_json(const RunReport& report);

}  // namespace afterimage
