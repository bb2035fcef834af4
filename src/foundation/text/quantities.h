// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// Parses durations and sizes as people write them: a whole number and a unit, with or without a
/// space between them. "90 s", "250ms", "7 d"; "512 MiB", "2 GB", "100 B".
///
/// Unit     ns, us, ms, s, min, h, d; B, KiB, MiB, GiB, TiB, and kB, MB, GB, TB in powers of 1,000.
/// Errors   kInvalidArgument: not of this form; the message shows a valid example.
/// Threads  Any.
[[nodiscard]] Result<Duration> parse_duration(std::string_view text);
[[nodiscard]] Result<Bytes> parse_size(std::string_view text);

/// Prints in the largest unit in which the value is a whole number; parse_…() reads it back
/// unchanged. Durations must not be negative.
[[nodiscard]] std::string print_duration(Duration duration);
[[nodiscard]] std::string print_size(Bytes size);

/// Rounded, for tables: "5.2 MiB", "640 B". Not meant to be parsed.
[[nodiscard]] std::string readable(Bytes bytes);

/// A count with its noun: "1 token", "3 tokens", "2 entries". If `many` is empty, the plural is
/// `one` plus "s".
[[nodiscard]] std::string plural(std::uint64_t count, std::string_view one,
                                 std::string_view many = {});

}  // namespace afterimage
