// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <string_view>

#include "afterimage/eviction_policy.h"
#include "policy/eviction/memory_shares.h"
#include "policy/eviction/workflow_order.h"

namespace afterimage {

/// The policy of one of several caches that share a governed memory.
struct GovernedPolicyOptions {
  std::string_view policy;                         // one of policy_names()
  std::shared_ptr<MemoryShares> shares = nullptr;  // of tenants, over all caches; nullptr: none
  bool keep_idle_order = false;                    // for idle_victim()
  std::shared_ptr<const WorkflowOrder> workflows = nullptr;  // of clients; nullptr: none
};

/// kInvalidArgument: unknown name.
[[nodiscard]] Result<std::unique_ptr<EvictionPolicy>> make_governed_policy(
    const GovernedPolicyOptions& options);

}  // namespace afterimage
