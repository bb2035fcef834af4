// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes give a page of similar questions, evidence or an error; a parsed one is written back
// unchanged. The checksum of evidence is corrected, so that the code behind it is reached.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "caches/similarity/similar_page.h"
#include "foundation/crypto/sha256.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto page = similar_page_from(bytes)) {
    AFI_CHECK(std::ranges::equal(to_bytes(*page), bytes));
  }
  std::vector<std::byte> sealed(bytes.begin(), bytes.end());
  const auto checksum = sha256(bytes);
  sealed.insert(sealed.end(), checksum.begin(), checksum.end());
  if (const auto evidence = shared_evidence_from(sealed)) {
    AFI_CHECK(to_bytes(*evidence) == sealed);
  }
  return 0;
}
