// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <string>

#include "bench/replay/replay_report.h"

namespace afterimage {

/// A self-contained HTML page without scripts: miss-ratio curves with their bounds, and a table of
/// all counts. Follows the reader's light or dark theme.
std::string to_html(std::span<const ReplayReport> reports);

}  // namespace afterimage
