// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/engine_backend/generation_settings.h"

#include <cmath>

namespace afterimage {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json generation_settings(const GenerateOptions& options) {
  const SamplingOptions& sampling = options.sampling;
  Json biases = Json::array();
  for (const auto& [token, bias] : sampling.logit_bias) {
    const Json value = std::isfinite(bias) ? Json(bias) : Json();
    biases.push_back({{"token", static_cast<std::int32_t>(token)}, {"bias", value}});
  }
  const bool is_limited = options.max_tokens != kNoTokenLimit;
  return Json{{"n_predict", is_limited ? Json(options.max_tokens.value()) : Json(-1)},
              {"seed", sampling.seed.has_value() ? Json(*sampling.seed) : Json(-1)},
              {"temperature", sampling.temperature},
              {"top_k", sampling.top_k},
              {"top_p", sampling.top_p},
              {"min_p", sampling.min_p},
              {"repeat_last_n", sampling.penalty_window},
              {"repeat_penalty", sampling.repeat_penalty},
              {"presence_penalty", sampling.presence_penalty},
              {"frequency_penalty", sampling.frequency_penalty},
              {"stop", options.stop},
              {"n_probs", options.top_logprobs.value_or(0)},
              {"logit_bias", biases}};
}

}  // namespace afterimage
