// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "afterimage/result.h"
#include "gateway/proxy/gateway.h"

namespace afterimage {

/// What an operator can ask for, and its result, as the JSON of docs/formats/admin.md.
///
/// Errors   kInvalidArgument: the fields are not those in docs/formats/admin.md.
/// Threads  Any.

/// kNotFound: no answers are stored.
[[nodiscard]] Result<nlohmann::json> invalidate(Gateway& gateway, const nlohmann::json& asked);
/// Erases from all caches and stores; waits for requests that are running. kUnavailable: a store
/// could not be erased from.
[[nodiscard]] Result<nlohmann::json> erase(Gateway& gateway, const nlohmann::json& asked);
/// kNotFound: no such request, or no stored answer of it.
[[nodiscard]] Result<nlohmann::json> report_wrong(Gateway& gateway, const nlohmann::json& asked);
/// kNotFound: no such entry.
[[nodiscard]] Result<nlohmann::json> pin(Gateway& gateway, const nlohmann::json& asked);
/// `text`: of `asked`, whose request keeps the order of its members.
[[nodiscard]] Result<nlohmann::json> explain(Gateway& gateway, const nlohmann::json& asked,
                                             std::string_view text);

}  // namespace afterimage
