// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "afterimage/result.h"
#include "policy/eviction/eviction_policy.h"

namespace afterimage {

/// What make_policy takes, the default first: "worth", then "fifo", "lru", "lfu", "sieve",
/// "s3-fifo", "arc", "w-tinylfu", "gdsf".
[[nodiscard]] std::span<const std::string_view> policy_names();

/// The policy of that name, made to take leaves first (prefix_closed.h).
///
/// Errors   kInvalidArgument: there is none; the message names those that are.
[[nodiscard]] Result<std::unique_ptr<EvictionPolicy>> make_policy(std::string_view name);

}  // namespace afterimage
