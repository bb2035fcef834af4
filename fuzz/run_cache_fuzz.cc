// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes give the cache of an experiment or an error; a parsed one is written back unchanged. The
// checksum is corrected, so that the code behind it is reached.
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "foundation/crypto/sha256.h"
#include "lab/experiment/run_cache.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  static_cast<void>(run_cache_from(bytes));
  std::vector<std::byte> sealed(bytes.begin(), bytes.end());
  const auto checksum = sha256(bytes);
  sealed.insert(sealed.end(), checksum.begin(), checksum.end());
  if (const auto cache = run_cache_from(sealed)) AFI_CHECK(to_bytes(*cache) == sealed);
  return 0;
}
