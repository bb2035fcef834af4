// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>

#include "afterimage/result.h"

namespace afterimage {

/// kInvalidArgument: not 1 to 64 letters, digits, '.', '_' and '-'.
[[nodiscard]] Result<void> check_name(const std::string& name);
/// The same, and the name is not one that unlisted keys have: "anonymous", "key-…".
[[nodiscard]] Result<void> check_tenant_name(const std::string& name);

}  // namespace afterimage
