// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "cli/output.h"

#include <fmt/format.h>

#include <cstdio>
#include <span>

namespace afterimage {

ExitCode report_error(std::string_view verb, const Error& error, ExitCode code) {
  fmt::print(stderr, AFTERIMAGE_PROGRAM " {}: {}\n", verb, error.message);
  return code;
}

Result<void> write_output(const std::string& path, const std::string& text, Files& files) {
  if (path.empty() || path == "-") return {};
  return files.replace(path, std::as_bytes(std::span(text)));
}

}  // namespace afterimage
