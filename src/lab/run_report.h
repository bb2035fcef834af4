// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>

#include "afterimage/lab/run.h"

namespace afterimage {

/// For a person: what ran, what was saved, whether the outputs are identical, what went wrong.
std::string to_table(const RunReport& report);

/// For a program. Times are milliseconds, sizes are bytes.
std::string to_json(const RunReport& report);

/// "5.2 MiB", "640 B".
std::string readable(Bytes bytes);

}  // namespace afterimage
