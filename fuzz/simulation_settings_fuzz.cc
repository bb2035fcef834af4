// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes give a simulation's settings, or an error that names the file; printing settings
// round-trips.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "lab/simulation/simulation_settings.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::string> known = {"cluster.nodes", "cluster.policy", "node.memory",
                                          "node.load_always", "traffic.skew"};
  const auto settings = parse_simulation_settings(
      std::string_view(reinterpret_cast<const char*>(data), size), "file", known);
  if (!settings.has_value()) {
    AFI_CHECK(settings.error().message.starts_with("file:"));
    return 0;
  }
  std::vector<DescribedSetting> described;
  for (const SimulationSetting& setting : *settings) described.push_back({setting, "comment"});
  const auto again =
      parse_simulation_settings(print_simulation_settings(described), "printed", known);
  AFI_CHECK(again.has_value() && again->size() == settings->size());
  for (std::size_t i = 0; i < settings->size(); ++i) {
    AFI_CHECK((*again)[i].key == (*settings)[i].key &&
              (*again)[i].values == (*settings)[i].values &&
              (*again)[i].list == (*settings)[i].list);
  }
  return 0;
}
