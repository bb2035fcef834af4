// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "cli/world.h"
#include "foundation/platform/files.h"

namespace afterimage {

/// Prints "<program> <verb>: <message>" on standard error and returns `code`.
ExitCode report_error(std::string_view verb, const Error& error, ExitCode code);

/// Writes a report to a file. Does nothing if `path` is empty (not wanted) or "-" (standard output,
/// which the caller prints).
Result<void> write_output(const std::string& path, const std::string& text, Files& files);

}  // namespace afterimage
