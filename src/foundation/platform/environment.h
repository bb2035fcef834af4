// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>

namespace afterimage {

/// The value of an environment variable; nullopt if it is not set.
[[nodiscard]] std::optional<std::string> environment(const std::string& name);

/// Sets a variable unless it is set. Call it before other threads read the environment.
void set_environment_default(const std::string& name, const std::string& value);

}  // namespace afterimage
