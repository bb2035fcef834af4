// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>

#include "afterimage/result.h"
#include "cli/verbs.h"
#include "lab/run/run.h"
#include "lab/workload/workload.h"

/// What the verbs that take a workload through an engine do alike.
namespace afterimage {

/// Reads the file and its media; names the photos that stand in on the standard error.
/// kInvalidArgument, too, if it holds no requests.
Result<Workload> load_workload(const std::string& path, const std::string& images, World& world);

/// One line on the standard error that is drawn over itself; nothing at all when nobody looks.
RunProgress progress_line();

/// `json_path`: "-" means the standard output, empty means nowhere. Asked before the work.
Result<void> check_report(const std::string& json_path, World& world);
/// Prints `text`, or `json` in its place, or both, the second to its file.
Result<void> print_report(const std::string& text, const std::string& json,
                          const std::string& json_path, World& world);

}  // namespace afterimage
