// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <array>
#include <string>

#include "afterimage/eviction_policy.h"
#include "policy/eviction/arc.h"
#include "policy/eviction/fifo.h"
#include "policy/eviction/gdsf.h"
#include "policy/eviction/governed_policy.h"
#include "policy/eviction/idle_order.h"
#include "policy/eviction/lfu.h"
#include "policy/eviction/lru.h"
#include "policy/eviction/prefix_closed.h"
#include "policy/eviction/s3_fifo.h"
#include "policy/eviction/sieve.h"
#include "policy/eviction/tenant_policy.h"
#include "policy/eviction/w_tiny_lfu.h"
#include "policy/eviction/workflow_policy.h"
#include "policy/eviction/worth.h"

namespace afterimage {
namespace {

template <typename Policy>
std::unique_ptr<EvictionPolicy> make() {
  return std::make_unique<PrefixClosed>(std::make_unique<Policy>());
}

struct Maker {
  std::string_view name;
  std::unique_ptr<EvictionPolicy> (*make)();
};

constexpr auto kMakers = std::to_array<Maker>({
    {"worth", make<Worth>},
    {"fifo", make<Fifo>},
    {"lru", make<Lru>},
    {"lfu", make<AgedLfu>},
    {"sieve", make<Sieve>},
    {"s3-fifo", make<S3Fifo>},
    {"arc", make<Arc>},
    {"w-tinylfu", make<WTinyLfu>},
    {"gdsf", make<Gdsf>},
});

constexpr auto kNames = [] {
  std::array<std::string_view, kMakers.size()> names;
  std::ranges::transform(kMakers, names.begin(), &Maker::name);
  return names;
}();

}  // namespace

std::span<const std::string_view> policy_names() { return kNames; }

Result<std::unique_ptr<EvictionPolicy>> make_policy(std::string_view name) {
  const auto found = std::ranges::find(kMakers, name, &Maker::name);
  if (found != kMakers.end()) return found->make();
  std::string message = "unknown eviction policy \"" + std::string(name) + "\"; choose one of";
  for (const std::string_view known : kNames) message += " " + std::string(known);
  return std::unexpected(Error{ErrorCode::kInvalidArgument, message});
}

Result<std::unique_ptr<EvictionPolicy>> make_governed_policy(const GovernedPolicyOptions& options) {
  AFI_TRY(std::unique_ptr<EvictionPolicy> policy, make_policy(options.policy));
  if (options.shares != nullptr) {
    policy = std::make_unique<TenantPolicy>(
        options.shares, [&] { return std::move(make_policy(options.policy).value()); });
  }
  if (options.workflows != nullptr) {
    policy = std::make_unique<PrefixClosed>(
        std::make_unique<WorkflowPolicy>(std::move(policy), options.workflows));
  }
  if (options.keep_idle_order) policy = std::make_unique<IdleOrder>(std::move(policy));
  return policy;
}

}  // namespace afterimage
