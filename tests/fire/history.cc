// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Many threads on one tier; checks that some order of the operations explains every read.
#include "afterimage/disk_tier.h"
#include "afterimage/tier.h"
#include "fire/child.h"
#include "fire/fire.h"
#include "fire/tier_history.h"
#include "storage/disk/segment_log.h"

namespace afterimage::fire {

Tally run_history(const FireRun& run) {
  Tally tally;
  const unsigned threads = run.brief ? std::min(run.threads, 8U) : run.threads;
  const auto operations = [&](std::uint64_t full, std::uint64_t brief) {
    return run.operations != 0 ? run.operations : run.of(full, brief);
  };
  {
    MemoryBudget budget(100_KiB);  // half of the data
    HostTier tier(budget);
    const auto history = std::make_unique<HistoryRun>(tier, true, run, tally);
    history->operate(threads, operations(250'000, 5'000));
  }
  const FireFolder folder(run.quick_folder, "history");
  MemoryBudget memory(64_MiB);
  const DiskTierOptions options{.log = {.capacity = 64_MiB,
                                        .segment_bytes = 8_MiB,
                                        .batch_bytes = 256_KiB,
                                        .read_timeout = std::chrono::seconds(20)}};
  const auto tier = DiskTier::open(folder.path(), options, memory, run.clock);
  if (!tier) {
    tally.miss("the tier does not open: " + to_string(tier.error()));
    return tally;
  }
  const auto history = std::make_unique<HistoryRun>(**tier, false, run, tally);
  history->operate(threads, operations(20'000, 300));
  (*tier)->log().check_invariants();
  tally.notes.push_back(std::to_string(threads) +
                        " threads on the host tier and on the disk tier; " +
                        "injected counts their operations");
  return tally;
}

}  // namespace afterimage::fire
