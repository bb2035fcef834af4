// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string_view>

#include "foundation/json/json_text.h"

namespace afterimage {

/// Whether a text is an address and nothing else: "https://host/picture.png", "s3://bucket/key". What is
/// there may change. Not a data URL, which holds its bytes.
/// Threads  Any.
[[nodiscard]] bool is_address(std::string_view text);
/// Whether it is one, or one is within it.
[[nodiscard]] bool holds_address(const JsonValue& value);

}  // namespace afterimage
