// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/platform/clock.h"

#include <chrono>

namespace afterimage {

Duration SystemClock::now() const { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace afterimage
