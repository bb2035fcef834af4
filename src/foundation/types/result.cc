// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/result.h"

#include <cstdio>
#include <cstdlib>

namespace afterimage {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kLimitExceeded:
      return "limit_exceeded";
    case ErrorCode::kNoSpace:
      return "no_space";
    case ErrorCode::kCorruption:
      return "corruption";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kUnsupported:
      return "unsupported";
  }
  return "unknown";
}

std::string to_string(const Error& error) {
  return std::string(to_string(error.code)) + ": " + error.message;
}

void check_failed(const char* condition, std::source_location where) {
  std::fprintf(stderr, "%s:%u: %s: broken invariant: %s\n", where.file_name(),
               static_cast<unsigned>(where.line()), where.function_name(), condition);
  std::abort();
}

}  // namespace afterimage
