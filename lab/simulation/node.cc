// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/simulation/node.h"

#include <algorithm>

#include "afterimage/eviction_policy.h"

namespace afterimage {

SimulatedNode::SimulatedNode(const NodeOptions& options, const Clock& clock)
    : memory(options.memory),
      shared(memory),
      encoder(make_policy(options.policy).value(), memory, &shared),
      kv(make_policy(options.policy).value(), memory, &shared),
      choices(clock),
      disk_in(options.disk_write),
      disk_out(options.disk_read),
      net_in(options.network),
      net_out(options.network),
      free_at_(options.engines) {
  shared.join(encoder);
  shared.join(kv);
  if (options.disk > 0_B) disk.emplace(options.disk, options.segment);
}

Duration SimulatedNode::work(Duration ready, Duration took) {
  const auto engine = std::ranges::min_element(free_at_);
  *engine = std::max(*engine, ready) + took;
  worked_ += took;
  return *engine;
}

}  // namespace afterimage
