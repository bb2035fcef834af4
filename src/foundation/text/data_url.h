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

/// Padded base64 (RFC 4648). Decoding accepts only the canonical encoding of the bytes; anything
/// else, including spaces and line ends, is kInvalidArgument.
///
/// Threads  Any.
[[nodiscard]] Result<std::vector<std::byte>> decode_base64(std::string_view text);
[[nodiscard]] std::string encode_base64(std::span<const std::byte> bytes);

/// The content of a data URL (RFC 2397).
struct DataUrl {
  std::string type;  // media type without ";base64": "image/png", "text/plain;charset=utf-8"
  std::vector<std::byte> bytes;
};

/// "image/png", and nothing that would end the type within a data URL.
[[nodiscard]] bool is_media_type(std::string_view type);

/// Whether the URL starts with "data:", in either case.
[[nodiscard]] bool is_data_url(std::string_view url);
/// Decodes a data URL.
///
/// Errors   kInvalidArgument: no comma, invalid base64, a percent sign without two hexadecimal
///          digits after it, no content.
/// Threads  Any.
[[nodiscard]] Result<DataUrl> decode_data_url(std::string_view url);

}  // namespace afterimage
