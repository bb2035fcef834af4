// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/residency/policies.h"

#include <algorithm>
#include <array>
#include <string>

#include "afterimage/residency/arc.h"
#include "afterimage/residency/fifo.h"
#include "afterimage/residency/gdsf.h"
#include "afterimage/residency/lfu.h"
#include "afterimage/residency/lru.h"
#include "afterimage/residency/prefix_closed.h"
#include "afterimage/residency/s3_fifo.h"
#include "afterimage/residency/sieve.h"
#include "afterimage/residency/w_tiny_lfu.h"
#include "afterimage/residency/worth.h"

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
  std::string message = "no eviction policy is called \"" + std::string(name) + "\"; there are";
  for (const std::string_view known : kNames) message += " " + std::string(known);
  return std::unexpected(Error{ErrorCode::kInvalidArgument, message});
}

}  // namespace afterimage
