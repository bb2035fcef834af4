// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "afterimage/result.h"
#include "policy/eviction/eviction_policy.h"

namespace afterimage {

/// The names that make_policy accepts, the default first: "worth", "fifo", "lru", "lfu", "sieve",
/// "s3-fifo", "arc", "w-tinylfu", "gdsf".
[[nodiscard]] std::span<const std::string_view> policy_names();

/// Creates the policy of that name, wrapped so that it evicts leaves first (prefix_closed.h).
///
/// Errors   kInvalidArgument: unknown name; the message lists the known ones.
[[nodiscard]] Result<std::unique_ptr<EvictionPolicy>> make_policy(std::string_view name);

}  // namespace afterimage
