// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Durations and sizes as people write them are parsed or rejected; printing a parsed value gives
// text that parses to the same value.
#include <cstdint>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/text/quantities.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto duration = parse_duration(text)) {
    AFI_CHECK(*duration >= Duration(0));
    AFI_CHECK(parse_duration(print_duration(*duration)).value() == *duration);
  } else {
    AFI_CHECK(!duration.error().message.empty());
  }
  if (const auto bytes = parse_size(text)) {
    AFI_CHECK(parse_size(print_size(*bytes)).value() == *bytes);
  } else {
    AFI_CHECK(!bytes.error().message.empty());
  }
  return 0;
}
