// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <expected>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

namespace afterimage {

/// Prints the failed condition and its location, then aborts. For broken invariants only: invalid
/// input from outside the program returns an Error.
[[noreturn]] void check_failed(const char* condition, std::source_location where);

/// Why a call failed. A closed list: programs switch on the code, people read the message.
/// A cache miss is a normal result and never an error.
enum class ErrorCode : unsigned char {
  kInvalidArgument,  // the call or its input is wrong; repeating the call fails again
  kNotFound,         // the named file or id does not exist
  kLimitExceeded,    // larger than a limit that protects this process
  kNoSpace,          // the budget or device is full and nothing can be evicted
  kCorruption,       // bytes differ from what was written, or contradict their own header
  kUnavailable,      // an external resource failed: a file, a device, a server
  kTimeout,          // a server did not answer in time
  kCancelled,        // the caller, or the flight leader the caller waited for, gave up
  kUnsupported,      // well-formed, but this build or engine does not support it
};

/// The code's name in snake_case, as used in logs, JSON and Python: "invalid_argument".
std::string_view to_string(ErrorCode code);

struct Error {
  ErrorCode code;
  std::string message;  // for people: what was asked, what was found, in which file or key
};

/// "invalid_argument: workload.jsonl line 3: …"
std::string to_string(const Error& error);

template <typename T>
using Result = std::expected<T, Error>;

/// Shorthand for returning an Error from a function that returns a Result.
inline std::unexpected<Error> fail(ErrorCode code, std::string message) {
  return std::unexpected<Error>(Error{code, std::move(message)});
}

#define AFI_CONCAT_INNER(a, b) a##b
#define AFI_CONCAT(a, b) AFI_CONCAT_INNER(a, b)
#define AFI_TRY_INNER(tmp, declaration, ...)                            \
  auto tmp = (__VA_ARGS__);                                             \
  if (!tmp.has_value()) return std::unexpected(std::move(tmp).error()); \
  declaration = *std::move(tmp)

/// `AFI_TRY(const Shape shape, parse(text));` declares `shape`, or returns the Error of parse().
#define AFI_TRY(declaration, ...) \
  AFI_TRY_INNER(AFI_CONCAT(afi_try_, __COUNTER__), declaration, __VA_ARGS__)

/// The same for a Result<void>: `AFI_TRY_VOID(check(sequence));`
#define AFI_TRY_VOID(...) AFI_TRY_VOID_INNER(AFI_CONCAT(afi_try_void_, __COUNTER__), __VA_ARGS__)
#define AFI_TRY_VOID_INNER(tmp, ...)                                      \
  do {                                                                    \
    auto tmp = (__VA_ARGS__);                                             \
    if (!tmp.has_value()) return std::unexpected(std::move(tmp).error()); \
  } while (false)

}  // namespace afterimage

/// Aborts the process if `condition` is false, in every build type: a broken invariant must not
/// become a wrong answer.
#define AFI_CHECK(condition)    \
  (static_cast<bool>(condition) \
       ? static_cast<void>(0)   \
       : ::afterimage::check_failed(#condition, std::source_location::current()))
