// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>

#include "afterimage/clock.h"
#include "afterimage/units.h"
#include "foundation/http/headers.h"

namespace afterimage {

/// The longest wait that a client's program should sit out. The official clients sleep as long as
/// Retry-After says, for hours, inside the call and without an error; all of them raise at once if a
/// response says "x-should-retry: false".
constexpr Duration kLongestRetryWait = std::chrono::seconds(60);

/// Retry-After, and x-should-retry if the wait is longer than kLongestRetryWait.
void add_retry_after(HttpHeaders& headers, const std::optional<Duration>& wait);

/// Of a 429 that is passed on and of our own 503: Retry-After, if it says nothing of when to retry. Some clients (Codex) end
/// their user's turn at a 429 without it.
void add_missing_retry_after(HttpHeaders& headers);

/// Of a response that is passed on: x-should-retry if its Retry-After (seconds or a date, or
/// retry-after-ms) is further away than kLongestRetryWait, unless it says itself whether to retry.
void limit_retry_after(HttpHeaders& headers, WallTime now);

}  // namespace afterimage
