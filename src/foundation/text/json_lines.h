// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "afterimage/result.h"

namespace afterimage {

/// A malformed line of a file; the other lines are used.
struct RejectedLine {
  std::size_t number = 0;  // line number in the file, from 1
  Error error;
};

/// kInvalidArgument: a file's content is malformed.
inline std::unexpected<Error> malformed(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

/// Calls take(line number from 1, line) for every line that is not blank.
template <typename Take>
void for_each_line(std::string_view text, const Take& take) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) take(number, line);
  }
}

}  // namespace afterimage
