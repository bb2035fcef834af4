// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are a trace context or none; a context survives a round trip. The same bytes as a
// collector's answer are a count.
#include <cstdint>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/telemetry/trace.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto context = parse_traceparent(text); context.has_value()) {
    AFI_CHECK(parse_traceparent(traceparent(*context)) == context);
    AFI_CHECK(text.substr(3, 32) == to_text(context->trace));
  }
  static_cast<void>(rejected_spans(text));
  return 0;
}
