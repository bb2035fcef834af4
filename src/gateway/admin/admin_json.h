// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "afterimage/answer_cache.h"
#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "gateway/proxy/decisions.h"
#include "gateway/proxy/gateway.h"

namespace afterimage {

/// A tier below memory, and its name for operators.
struct NamedTier {
  std::string_view name;
  const Tier* tier;
};

/// What can be read, as the JSON of docs/formats/admin.md.
///
/// Threads  Any.

/// What computes the answers and, if it is an engine of this process, whether reuse is exact on it.
[[nodiscard]] nlohmann::json engine_json(const Gateway& gateway);
[[nodiscard]] nlohmann::json stats_json(Gateway& gateway, Duration uptime, std::string_view version,
                                        std::span<const NamedTier> tiers);
[[nodiscard]] nlohmann::json decision_json(const Decision& decision);
/// Adds the match levels, the media and the reasons to decision_json().
void add_explanation(nlohmann::json& json, const Decision& decision);
/// `query` without the '?'. kInvalidArgument: not a number where one is asked for.
[[nodiscard]] Result<nlohmann::json> decisions_json(Gateway& gateway, std::string_view query);
[[nodiscard]] Result<nlohmann::json> entries_json(Gateway& gateway, std::string_view query);
/// The media items whose encoder outputs are in memory, those that most agents share first.
[[nodiscard]] Result<nlohmann::json> media_json(Gateway& gateway, std::string_view query);

/// kNotFound: no answers are stored.
[[nodiscard]] Result<AnswerCache*> answer_cache_of(Gateway& gateway);

/// With 95 % confidence, at most this share is wrong if `wrong` of `checked` were; nullopt: nothing
/// was checked.
[[nodiscard]] std::optional<double> upper95(std::uint64_t wrong, std::uint64_t checked);

/// The share of answers served to other words that may be wrong: beyond it page and alerts warn.
[[nodiscard]] double unsafe_budget();

/// As text; bytes from outside that are not UTF-8 are replaced.
[[nodiscard]] std::string as_text(const nlohmann::json& json);

}  // namespace afterimage
