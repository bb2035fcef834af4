// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <source_location>

namespace afterimage {

/// Prints the failed condition and its location, then aborts. For broken invariants only: invalid
/// input from outside the program returns an Error.
[[noreturn]] void check_failed(const char* condition, std::source_location where);

}  // namespace afterimage

/// Aborts the process if `condition` is false, in every build type: a broken invariant must not
/// become a wrong answer.
#define AFI_CHECK(condition)    \
  (static_cast<bool>(condition) \
       ? static_cast<void>(0)   \
       : ::afterimage::check_failed(#condition, std::source_location::current()))
