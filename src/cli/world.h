// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include "afterimage/clock.h"
#include "foundation/platform/files.h"

namespace afterimage {

/// Exit codes of every verb.
enum class ExitCode : int {
  kFine = 0,
  kProblem = 1,     // the work found a problem: a request failed, outputs differ
  kUsageError = 2,  // nothing was done: an unknown flag, a missing file
};

/// What a verb may use of the outside world.
struct World {
  Files& files;
  const Clock& clock;
};

}  // namespace afterimage
