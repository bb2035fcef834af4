// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"

namespace afterimage {

/// Base64 of RFC 4648, padded; the one text that the bytes have. Anything else, spaces and line
/// ends included, is kInvalidArgument.
/// Threads  Any.
[[nodiscard]] Result<std::vector<std::byte>> decode_base64(std::string_view text);
[[nodiscard]] std::string encode_base64(std::span<const std::byte> bytes);

/// What a data URL (RFC 2397) carries.
struct DataUrl {
  std::string type;  // all before the comma but ";base64": "image/png", "text/plain;charset=utf-8"
  std::vector<std::byte> bytes;
};

/// "data:" in either case.
[[nodiscard]] bool is_data_url(std::string_view url);
/// Errors   kInvalidArgument: no comma, base64 that is none, a percent sign without two
///          hexadecimal digits after it, nothing in it.
/// Threads  Any.
[[nodiscard]] Result<DataUrl> decode_data_url(std::string_view url);

}  // namespace afterimage
