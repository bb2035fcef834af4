// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace afterimage::testing {

/// Whether it is JSON, by another parser than ours. That one also rejects numbers beyond a double, which
/// JSON allows.
inline bool is_json(std::string_view body) {
  constexpr int kNumberTooLarge = 406;
  try {
    static_cast<void>(nlohmann::json::parse(body));
    return true;
  } catch (const nlohmann::json::exception& error) {
    return error.id == kNumberTooLarge;
  }
}

}  // namespace afterimage::testing
