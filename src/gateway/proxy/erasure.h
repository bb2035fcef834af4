// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <string_view>

#include "afterimage/reuse.h"
#include "gateway/proxy/gateway.h"

namespace afterimage {

/// Erases from all caches of this process and from its tiers. Clients and the built-in engine may
/// know its model by two names: either erases. Slow: see Reuse::erase().
/// Errors   As Reuse::erase().
[[nodiscard]] Result<EraseReport> erase_here(Gateway& gateway, EraseTarget target);

/// The tag of the answers that it selects; empty: all.
[[nodiscard]] std::string answer_tag(const EraseTarget& target);

/// How a gateway tells those that share its answers to erase the same, from their memory and disks:
/// as the tag of an invalidation, which no answer has.
[[nodiscard]] std::string announcement(const EraseTarget& target);
/// nullopt: it announces nothing.
[[nodiscard]] std::optional<EraseTarget> announced(std::string_view tag);

}  // namespace afterimage
