// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are the positions of an item's embeddings, or an error; parsed positions survive a
// round trip.
#include <algorithm>
#include <cstdint>

#include "afterimage/result.h"
#include "engines/llama_library/span_parts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace afterimage;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto parts = parts_of(TensorView::over(DType::kU8, {size}, bytes).value());
  if (!parts.has_value()) return 0;
  for (const SpanPart& part : *parts) AFI_CHECK(length_of(part) > TokenCount(0));
  AFI_CHECK(std::ranges::equal(to_tensor(*parts).bytes, bytes));
  return 0;
}
