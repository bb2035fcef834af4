// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "fire/fire.h"

namespace afterimage::fire {

std::span<const Row> rows() {
  static const Row kRows[] = {
      {"kills",
       "kill -9 of a process that writes, replaces, erases and reads; reopened, all verified",
       run_kills,
       {"folder."}},
      {"torn",
       "a log cut at every 512 bytes +-1: shortened, zeroed, filled with garbage",
       run_torn,
       {"scan.value", "value."}},
      {"lost",
       "power failures that lose, tear and reorder what was not synced",
       run_lost,
       {"commit.", "bury.", "segment.name", "seal.", "evict.", "removal."}},
      {"flips",
       "bits that changed, each alone and several, on disk and in memory",
       run_flips,
       {"value.", "record.header.checksum", "block.", "footer.checksum", "host.",
        "erasures.checksum"}},
      {"failing",
       "every n-th disk operation fails, once, thrice and from then on",
       run_failing,
       {"sync.failed"}},
  };
  return kRows;
}

}  // namespace afterimage::fire
