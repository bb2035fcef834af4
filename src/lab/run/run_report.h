// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>

#include "lab/run/run.h"

namespace afterimage {

/// For a person: what ran, what was saved, whether the outputs are identical, what went wrong.
std::string to_table(const RunReport& report);

/// For a program. Times are milliseconds, sizes are bytes.
std::string to_json(const RunReport& report);

}  // namespace afterimage
