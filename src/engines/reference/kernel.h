// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <string_view>

#include "afterimage/result.h"
#include "engines/reference/kernel_table.h"

namespace afterimage {

/// The tables that this machine can run, fastest first. Never empty.
std::span<const Kernels* const> supported_kernels();

/// The table of that name, or the fastest for an empty name. kUnsupported: not on this machine.
Result<const Kernels*> kernels_named(std::string_view name);

}  // namespace afterimage
