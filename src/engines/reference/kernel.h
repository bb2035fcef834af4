// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <string_view>

#include "afterimage/result.h"
#include "engines/reference/kernel_table.h"

namespace afterimage {

/// The kernel tables that this machine supports, fastest first. Never empty.
std::span<const Kernels* const> supported_kernels();

/// The table with this name, or the fastest if the name is empty. kUnsupported: not on this
/// machine.
Result<const Kernels*> kernels_named(std::string_view name);

}  // namespace afterimage
