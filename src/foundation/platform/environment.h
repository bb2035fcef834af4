// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>

namespace afterimage {

/// What the environment says under a name; nullopt: nothing.
[[nodiscard]] std::optional<std::string> environment(const std::string& name);

/// The time of day, of the whole world: "2026-11-22T08:15:30Z". For records only; what measures
/// takes a Clock.
[[nodiscard]] std::string utc_timestamp();

}  // namespace afterimage
