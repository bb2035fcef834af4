// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <string>

#include "engines/llama_library/llama_options.h"

namespace afterimage::testing {

/// The weight types of published models.
inline const std::array<std::string, 11> kWeightTypes = {
    "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q5_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "MXFP4"};

/// The demo model "wide" with all its matrices converted to `type`; written when it is first asked
/// for, to a folder that goes away with the process.
LlamaOptions quantized_options(const std::string& type);

}  // namespace afterimage::testing
