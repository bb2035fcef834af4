// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <vector>

#include "gateway/fleet/fleet.h"

namespace afterimage {

/// One decision in the making: every replica with its numbers, then the chosen one.
struct Fleet::Choice {
  struct Option {
    std::shared_ptr<Replica> replica;
    bool ready = false;
    Resident resident = {};
    double uncached_media = 0;
    double cost_s = 0;   // of the rest, on an idle replica of average speed
    double total_s = 0;  // until its first byte
  };
  std::vector<Option> options;
  std::vector<float> tokens;
  double all_tokens = 0;
  double full_cost_s = 0;  // with nothing resident
  std::uint32_t attempt = 1;
  Route route;  // a candidate for each option
  std::shared_ptr<Replica> chosen;
  std::size_t index = 0;  // of the chosen one

  [[nodiscard]] const Option& picked() const { return options[index]; }
  [[nodiscard]] FleetRefusal refusal() const;
};

}  // namespace afterimage
