// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// Spans of time and sizes as people write them: a whole number and a unit, with or without a space
/// between them. "90 s", "250ms", "7 d"; "512 MiB", "2 GB", "100 B".
///
/// Unit     ns, us, ms, s, min, h, d; B, KiB, MiB, GiB, TiB, and kB, MB, GB, TB in powers of 1,000.
/// Errors   kInvalidArgument: no such text; the message says what would be one.
/// Threads  Any.
[[nodiscard]] Result<Duration> parse_duration(std::string_view text);
[[nodiscard]] Result<Bytes> parse_size(std::string_view text);

/// In the largest unit in which it is a whole number; parse_…() reads it as the same. Durations are
/// not negative.
[[nodiscard]] std::string print_duration(Duration duration);
[[nodiscard]] std::string print_size(Bytes size);

/// For a table: "5.2 MiB", "640 B". Rounded; not meant to be parsed.
[[nodiscard]] std::string readable(Bytes bytes);

/// "1 token", "3 tokens", "2 entries". `many` empty: `one` with an s.
[[nodiscard]] std::string plural(std::uint64_t count, std::string_view one,
                                 std::string_view many = {});

}  // namespace afterimage
