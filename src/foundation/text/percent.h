// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace afterimage {

/// `text` with the bytes that its percent escapes stand for.
///
/// Errors   nullopt: a percent sign is not followed by two hexadecimal digits.
/// Source   RFC 3986, section 2.1.
[[nodiscard]] std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace afterimage
