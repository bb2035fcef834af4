// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <string>

#include "foundation/text/csv.h"

namespace afterimage {

/// One page on a sweep: how much is matched and how much of that is wrong, over the thresholds;
/// what each rung took; and all rows. No script, nothing fetched.
std::string sweep_page(std::span<const CsvRow> rows);

}  // namespace afterimage
