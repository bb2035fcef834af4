// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "afterimage/result.h"
#include "gateway/fleet/fleet_backend.h"

namespace afterimage {

/// The JSON of docs/formats/admin.md for the replicas.
/// Threads  Any.
[[nodiscard]] nlohmann::json fleet_json(FleetBackend& fleet);
/// Which replica was chosen, and why.
[[nodiscard]] nlohmann::json route_json(const Route& route);
/// `action` "/drain" or "/resume", of the replica that `asked` names.
/// Errors   kNotFound: no such action or replica. kInvalidArgument: it names none.
[[nodiscard]] Result<nlohmann::json> change_fleet(FleetBackend& fleet, std::string_view action,
                                                  const nlohmann::json& asked);

}  // namespace afterimage
