// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "afterimage/reuse.h"
#include "gateway/proxy/gateway.h"

namespace afterimage {

/// What was removed from this process and its tiers.
struct GatewayEraseReport {
  EraseReport caches;
  std::uint64_t files = 0;      // uploaded to /v1/files
  std::uint64_t responses = 0;  // stored for previous_response_id

  GatewayEraseReport& operator+=(const GatewayEraseReport& more);
};

/// Erases from all caches of this process and from its tiers, from uploaded files and stored responses.
/// Clients and the built-in engine may know its model by two names: either erases. With a media item,
/// all stored responses go whose conversation has media. Slow: see Reuse::erase(), also for `timeout`.
/// Errors   As Reuse::erase().
[[nodiscard]] Result<GatewayEraseReport> erase_here(Gateway& gateway, EraseTarget target,
                                                    Duration timeout = std::chrono::seconds(30));

/// The answers that it selects.
[[nodiscard]] AnswerFilter answer_filter(const EraseTarget& target, const WallClock& wall);

/// How a gateway tells those that share its answers to erase the same, from their memory and disks:
/// as the tag of an invalidation, which no answer has.
[[nodiscard]] std::string announcement(const EraseTarget& target);
/// nullopt: it announces nothing.
[[nodiscard]] std::optional<EraseTarget> announced(std::string_view tag);

}  // namespace afterimage
