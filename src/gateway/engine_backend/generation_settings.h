// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <nlohmann/json.hpp>

#include "afterimage/engine.h"

namespace afterimage {

/// How an answer is generated, with llama-server's names: "n_predict", "temperature", "logit_bias", …
/// -1: no limit, or any seed.
[[nodiscard]] nlohmann::ordered_json generation_settings(const GenerateOptions& options);

}  // namespace afterimage
