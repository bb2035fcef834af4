// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Base64 and data URLs decode to bytes or an error, and encoding the bytes round-trips.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/text/data_url.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto bytes = decode_base64(text)) AFI_CHECK(encode_base64(*bytes) == text);

  const auto given = std::as_bytes(std::span(data, size));
  const std::string encoded = encode_base64(given);
  const auto back = decode_base64(encoded);
  AFI_CHECK(back.has_value() && std::ranges::equal(*back, given));

  const auto url = decode_data_url(text);
  AFI_CHECK(!url.has_value() || is_data_url(text));
  if (!url.has_value()) return 0;
  AFI_CHECK(!url->bytes.empty() && url->bytes.size() <= size && url->type.size() < size);
  AFI_CHECK(!url->type.contains(','));
  const auto again =
      decode_data_url("data:" + url->type + ";base64," + encode_base64(url->bytes)).value();
  AFI_CHECK(again.bytes == url->bytes && again.type == url->type);
  return 0;
}
