// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are a load trace that survives being written and read, or an error.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "afterimage/result.h"
#include "bench/load/load_trace.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto trace = parse_load_trace(std::as_bytes(std::span(data, size)));
  if (!trace) {
    AFI_CHECK(trace.error().message.starts_with("line "));
    return 0;
  }
  AFI_CHECK(!trace->requests.empty());
  AFI_CHECK(std::ranges::is_sorted(trace->requests, {}, &LoadRequest::at));
  const std::string text = to_text(*trace);
  const auto again = parse_load_trace(std::as_bytes(std::span(text)));
  AFI_CHECK(again.has_value() && *again == *trace);
  return 0;
}
