// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <string>

#include "lab/experiment/csv.h"

namespace afterimage {

/// An HTML page about a sweep: match rate and wrong rate over the thresholds, the latency of each
/// match level, and all rows. Self-contained, no scripts.
std::string sweep_page(std::span<const CsvRow> rows);

}  // namespace afterimage
