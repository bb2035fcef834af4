// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace afterimage {

/// Why a call could not do its work. A closed list: programs switch on it, people read the message.
/// A cache miss is a normal answer and never an error.
enum class ErrorCode : unsigned char {
  kInvalidArgument,  // the call or its input is wrong; the same call fails again
  kNotFound,         // a file or id that was named does not exist
  kLimitExceeded,    // larger than a limit that protects this process
  kNoSpace,          // the budget holds, and everything in it is in use
  kCorruption,       // bytes are not what they were when they were written, or not what they claim
  kUnavailable,      // the outside world refused: a file that cannot be read or written, a device
  kCancelled,        // the caller, or whoever the caller was waiting for, gave up
  kUnsupported,      // well-formed, but this build or engine does not do it
};

/// The code's name in snake_case, as logs, JSON and Python spell it: "invalid_argument".
std::string_view to_string(ErrorCode code);

struct Error {
  ErrorCode code;
  std::string message;  // for a person: what was asked, what was found, in which file or key
};

/// "invalid_argument: workload.jsonl line 3: …"
std::string to_string(const Error& error);

template <typename T>
using Result = std::expected<T, Error>;

/// Shorthand for returning an Error from a function that returns some Result.
inline std::unexpected<Error> fail(ErrorCode code, std::string message) {
  return std::unexpected<Error>(Error{code, std::move(message)});
}

#define AFI_CONCAT_INNER(a, b) a##b
#define AFI_CONCAT(a, b) AFI_CONCAT_INNER(a, b)
#define AFI_TRY_INNER(tmp, declaration, ...)                            \
  auto tmp = (__VA_ARGS__);                                             \
  if (!tmp.has_value()) return std::unexpected(std::move(tmp).error()); \
  declaration = *std::move(tmp)

/// `AFI_TRY(const Shape shape, parse(text));` declares `shape`, or returns parse's Error.
#define AFI_TRY(declaration, ...) \
  AFI_TRY_INNER(AFI_CONCAT(afi_try_, __LINE__), declaration, __VA_ARGS__)

/// The same for a Result<void>: `AFI_TRY_VOID(check(sequence));`
#define AFI_TRY_VOID(...)                                                                   \
  do {                                                                                      \
    auto afi_try_void = (__VA_ARGS__);                                                      \
    if (!afi_try_void.has_value()) return std::unexpected(std::move(afi_try_void).error()); \
  } while (false)

}  // namespace afterimage
