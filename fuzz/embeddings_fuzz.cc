// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are endpoint addresses and replies, or errors; the resulting vectors are comparable.
#include <string_view>

#include "afterimage/result.h"
#include "caches/similarity/endpoint_embedder.h"
#include "caches/similarity/vector_index.h"
#include "foundation/http/url.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace afterimage;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto url = parse_url(text)) AFI_CHECK(!url->host.empty() && url->target.front() == '/');
  for (const std::size_t count : {1U, 2U}) {
    const auto vectors = parse_embeddings(text, count, 0);
    if (!vectors.has_value()) continue;
    AFI_CHECK(vectors->size() == count);
    for (const Vector& vector : *vectors) {
      AFI_CHECK(check_vector(vector, vectors->front().size()).has_value());
    }
  }
  return 0;
}
