// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>

#include "afterimage/result.h"
#include "bench/run/run.h"
#include "bench/workload/workload.h"
#include "cli/world.h"

/// Loading, progress and reports for the verbs that run a workload through an engine.
namespace afterimage {

/// Reads the file and its media. Prints to standard error which photos replace which images.
/// Errors   kInvalidArgument: the file holds no requests; otherwise those of read_workload.
Result<Workload> load_workload(const std::string& path, const std::string& images, World& world);

/// A progress line on standard error; empty unless standard error is a terminal.
RunProgress progress_line();

/// Checks before the work that the report can be written. `json_path`: "-" is standard output,
/// empty is none.
Result<void> check_report(const std::string& json_path, World& world);
/// Prints `text`, or `json` if `json_path` is "-"; otherwise also writes `json` to `json_path`.
Result<void> print_report(const std::string& text, const std::string& json,
                          const std::string& json_path, World& world);

}  // namespace afterimage
