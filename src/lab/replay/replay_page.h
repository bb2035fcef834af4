// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <string>

#include "lab/replay/replay_report.h"

namespace afterimage {

/// One HTML page that needs no other file and runs no script: miss-ratio curves with their bounds,
/// and a table of everything that was counted. Light or dark as the reader's system is.
std::string to_html(std::span<const ReplayReport> reports);

}  // namespace afterimage
