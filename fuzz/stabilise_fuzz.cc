// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are a chat that is made stable, or are left alone. A stable chat is JSON if the bytes were, is
// left alone the next time.
#include <cstdint>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "gateway/protocol/stabilise.h"
#include "json_check.h"

using namespace afterimage;
using testing::is_json;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Stabilising may{.tool_order = (data[0] & 1U) != 0,
                        .schema_keys = (data[0] & 2U) != 0,
                        .date_line = (data[0] & 4U) != 0};
  const std::string_view chat(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto stable = stabilised(chat, may);
  if (!stable.has_value()) return 0;
  AFI_CHECK(is_json(stable->body));
  AFI_CHECK(!stable->parts.empty());
  AFI_CHECK(!stabilised(stable->body, may).has_value());
  return 0;
}
