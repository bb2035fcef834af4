// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/ablation.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace afterimage {

std::string ablation_specs() {
  using Json = nlohmann::ordered_json;
  Json specs{{"defaults", {{"dataset", "gqa"}, {"max_samples", 1'000}, {"model", "generated"}}},
             {"experiments", Json::array()}};
  for (const char* const key : {"question", "semantic"}) {
    for (const int percent : {60, 70, 80, 90}) {
      for (const bool vetoes : {true, false}) {
        for (const bool exact : {true, false}) {
          specs["experiments"].push_back(
              {{"name", fmt::format("{}-{}{}{}", key, percent, vetoes ? "" : "-no-vetoes",
                                    exact ? "" : "-no-text")},
               {"chunk_source", key},
               {"similarity_threshold", percent / 100.0},
               {"vetoes", vetoes},
               {"enable_exact_text_cache", exact}});
        }
      }
    }
  }
  return specs.dump(2) + "\n";
}

}  // namespace afterimage
