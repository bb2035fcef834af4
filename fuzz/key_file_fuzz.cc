// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are the keys of a file, or the usage beside it, or an Error; what is read survives a
// round trip.
#include <cstdint>
#include <string_view>

#include "afterimage/result.h"
#include "gateway/keys/key_file.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto keys = parse_keys(text); keys.has_value()) {
    AFI_CHECK(parse_keys(print_keys(*keys)).value() == *keys);
  }
  if (const auto usage = parse_usage(text); usage.has_value()) {
    AFI_CHECK(parse_usage(print_usage(*usage)).value() == *usage);
  }
  if (const auto budget = parse_budget(text); budget.has_value()) {
    AFI_CHECK(parse_budget(to_text(*budget)).value() == *budget);
  }
  static_cast<void>(parse_price(text));
  return 0;
}
