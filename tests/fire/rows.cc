// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "fire/fire.h"

namespace afterimage::fire {

std::span<const Row> rows() {
  static const Row kRows[] = {
      {"torn",
       "a log cut at every 512 bytes +-1: shortened, zeroed, filled with garbage",
       run_torn,
       {"scan.value", "value."}},
      {"lost",
       "power failures that lose, tear and reorder what was not synced",
       run_lost,
       {"commit.", "bury.", "segment.name", "seal.", "evict.", "removal."}},
      {"stale",
       "segments over what older ones left, and files that are another's",
       run_stale,
       {"scan.epoch", "segment.store", "segment.number", "record.epoch"}},
      {"forged",
       "bytes that are whole and say something else, with good checksums",
       run_forged,
       {"record.", "footer.", "block.version", "recovery.newest", "scan.place"}},
      {"flips",
       "bits that changed, each alone and several, on disk and in memory",
       run_flips,
       {"value.", "record.header.checksum", "block.checksum", "footer.checksum", "host.",
        "erasures.checksum"}},
      {"misdirected", "reads of another place, writes to another place", run_misdirected, {}},
      {"failing",
       "every n-th disk operation fails, once, thrice and from then on",
       run_failing,
       {"sync.failed"}},
      {"short",
       "transfers that go part of the way, EINTR, EAGAIN, on the machine's own disk",
       run_short,
       {"transfer.", "write."}},
      {"simulation",
       "everything in one thread, faults mixed, then none: a seed, a life",
       run_simulation,
       {"answer.", "erasures."}},
      {"points",
       "kill -9, errors and delays at every named place, and again while it recovers",
       run_points,
       {},
       true},
      {"kills",
       "kill -9 at any time of a process that writes, replaces, erases and reads",
       run_kills,
       {"folder."},
       true},
      {"history",
       "many threads on a tier: is there an order that explains every read?",
       run_history,
       {},
       true},
  };
  return kRows;
}

}  // namespace afterimage::fire
