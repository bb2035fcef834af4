// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "afterimage/result.h"
#include "gateway/proxy/gateway.h"

namespace afterimage {

/// The `keys` of docs/formats/admin.md: those of the settings and those that were made here, with
/// their budgets and what they used. Never a key, and never its hash.
/// Threads  Any.
[[nodiscard]] nlohmann::json keys_json(Gateway& gateway);

/// POST /admin/api/keys and the actions below it; `action` is "", "/rotate", "/disable", "/enable" or
/// "/budgets". The answer of the first two holds the secret, which nobody can ask for again.
///
/// Errors   kInvalidArgument, kNotFound, kUnavailable, kLimitExceeded: as KeyStore says.
[[nodiscard]] Result<nlohmann::json> change_keys(Gateway& gateway, std::string_view action,
                                                 const nlohmann::json& asked);

}  // namespace afterimage
