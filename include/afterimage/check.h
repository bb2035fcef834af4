// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <source_location>

namespace afterimage {

/// Prints where and what, then aborts. For broken invariants only: input from outside gets an
/// Error.
[[noreturn]] void check_failed(const char* condition, std::source_location where);

}  // namespace afterimage

/// A broken invariant ends the process in every build, before it becomes a wrong answer.
#define AFI_CHECK(condition)    \
  (static_cast<bool>(condition) \
       ? static_cast<void>(0)   \
       : ::afterimage::check_failed(#condition, std::source_location::current()))
