// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>

namespace afterimage {

/// A spec file of 32 experiments: two keys, four thresholds, with and without vetoes, with and
/// without text matching. On generated questions no two have the same outcome.
[[nodiscard]] std::string ablation_specs();

}  // namespace afterimage
