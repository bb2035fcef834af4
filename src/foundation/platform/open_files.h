// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>

namespace afterimage {

/// How many files and connections this process may have open at once: its soft limit. 0: unknown.
[[nodiscard]] std::uint64_t open_file_limit();
/// Raises it to the hard limit. What cannot be raised stays as it is.
void raise_open_file_limit();

}  // namespace afterimage
