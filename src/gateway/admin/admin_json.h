// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "gateway/proxy/decisions.h"
#include "gateway/proxy/gateway.h"

namespace afterimage {

/// A tier below memory, as operators call it.
struct NamedTier {
  std::string_view name;
  const Tier* tier;
};

/// The words of docs/formats/admin.md.
/// Threads  Any.
[[nodiscard]] nlohmann::json stats_json(Gateway& gateway, Duration uptime, std::string_view version,
                                        std::span<const NamedTier> tiers);
[[nodiscard]] nlohmann::json decision_json(const Decision& decision);
/// What explains it; with decision_json() it is the whole of it.
void add_explanation(nlohmann::json& json, const Decision& decision);
/// `query` without the '?'. kInvalidArgument: a number that is none.
[[nodiscard]] Result<nlohmann::json> decisions_json(Gateway& gateway, std::string_view query);
[[nodiscard]] Result<nlohmann::json> entries_json(Gateway& gateway, std::string_view query);
[[nodiscard]] Result<nlohmann::json> invalidate(Gateway& gateway, const nlohmann::json& asked);
/// kNotFound: there is no such entry.
[[nodiscard]] Result<nlohmann::json> pin(Gateway& gateway, const nlohmann::json& asked);
[[nodiscard]] Result<nlohmann::json> explain(Gateway& gateway, const nlohmann::json& asked);

/// The least upper bound, with 95 % confidence, of how often what was wrong `wrong` times of
/// `checked` is wrong; nullopt: nothing was checked.
[[nodiscard]] std::optional<double> upper95(std::uint64_t wrong, std::uint64_t checked);

/// Which part of what is served may be wrong: beyond it page and alerts say so.
[[nodiscard]] double unsafe_budget();

/// Text that came from outside, as JSON can hold it: UTF-8.
[[nodiscard]] std::string as_text(const nlohmann::json& json);

}  // namespace afterimage
