// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Creates a disk tier's folder for tests of the program.
//
//   make_store DIR ENTRIES          and closes it
//   make_store DIR ENTRIES die      and exits without closing it
//   make_store DIR ENTRIES hold     and keeps it open until standard input ends
#include <unistd.h>

#include <cstdio>
#include <string>

#include "afterimage/disk_tier.h"
#include "testing/tier_entries.h"

using namespace afterimage;

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string then = argc > 3 ? argv[3] : "";
  MemoryBudget memory(64_MiB);
  const SystemClock clock;
  const DiskTierOptions options{.log = {.capacity = 8_MiB,
                                        .segment_bytes = 256_KiB,
                                        .batch_bytes = 64_KiB,
                                        .append_timeout = std::chrono::seconds(60)}};
  auto tier = DiskTier::open(argv[1], options, memory, clock);
  if (!tier) {
    std::fprintf(stderr, "%s\n", to_string(tier.error()).c_str());
    return 1;
  }
  const auto put = [&](std::uint64_t n, std::size_t size) {
    const auto entry_class = n % 2 == 0 ? EntryClass::kEncoderOutput : EntryClass::kPrefixKv;
    const EntryMeta meta{.cost = std::chrono::milliseconds(250)};
    return (*tier)
        ->put(testing::tier_key(n, entry_class), meta, testing::tier_bytes(n, size))
        .has_value();
  };
  for (std::uint64_t n = 0; n < std::stoull(argv[2]); ++n) {
    if (!put(n, 10'000)) return 1;
  }
  if (!(*tier)->flush()) return 1;
  if (then == "die") ::_exit(0);
  if (then == "hold") {
    std::puts("open");
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
  }
  return 0;
}
