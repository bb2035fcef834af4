// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// What does it cost to govern: a step, and to release bytes whose copies are below, by how many
// entries there are?
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "afterimage/check.h"
#include "afterimage/platform/random.h"
#include "afterimage/pressure/governor.h"
#include "afterimage/pressure/residents.h"
#include "afterimage/residency/lfu.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

constexpr Bytes kEntry = 1_MiB;

void BM_GovernorStep(benchmark::State& bench) {
  const GovernorOptions options{.cap = 12_GiB, .reserve = 1_GiB};
  Rng rng(1);
  std::vector<Bytes> external;  // varied: no perfect branch prediction
  for (int i = 0; i < 4096; ++i) external.push_back(Bytes(rng.below((15_GiB).value())));
  GovernorState state;
  Duration now = 0s;
  std::size_t next = 0;
  for (auto _ : bench) {
    now += 50ms;
    const Bytes others = external[next++ % external.size()];
    const GovernorStep made = step(
        state,
        {.now = now,
         .ledger = {.used = 1_GiB, .clean = 256_MiB, .cleaning = {}},
         .sample =
             MemorySample{.taken_at = now, .total = 16_GiB, .used = others + 1_GiB, .ours = 1_GiB}},
        options);
    state = made.state;
    benchmark::DoNotOptimize(made.actions.release);
  }
  bench.SetItemsProcessed(bench.iterations());
}
BENCHMARK(BM_GovernorStep);

/// One entry is released and comes back, of so many that are there.
void BM_ReleaseClean(benchmark::State& bench) {
  const auto entries = static_cast<std::uint64_t>(bench.range(0));
  const Bytes all(kEntry.value() * entries);
  const auto residents =
      Residents::create({.below = all}, all, [] { return std::make_unique<AgedLfu>(); }).value();
  for (std::uint64_t i = 0; i < entries; ++i) {
    AFI_CHECK(residents->admit({.bytes = kEntry}, 0s).has_value());
  }
  std::vector<CleanOrder> orders;
  const auto clean = [&](Bytes wanted) {
    orders.clear();
    residents->obey({.budget = all, .target = all, .clean = wanted}, 0s, orders);
    for (const CleanOrder& order : orders) residents->finish_clean(order.slot, true);
  };
  clean(all);
  static_cast<void>(residents->moves());
  GovernorActions release{.budget = all, .target = all - kEntry, .release = kEntry};
  for (auto _ : bench) {
    residents->obey(release, 0s, orders);
    bench.PauseTiming();
    for (const Move& move : residents->moves()) {
      release.target = all;
      residents->obey({.budget = all, .target = all}, 0s, orders);
      AFI_CHECK(residents->promote(move.slot, 0s).has_value());
      release.target = all - kEntry;
    }
    static_cast<void>(residents->moves());
    clean(kEntry);
    static_cast<void>(residents->moves());
    bench.ResumeTiming();
  }
  bench.SetItemsProcessed(bench.iterations());
}
BENCHMARK(BM_ReleaseClean)->Arg(100)->Arg(10'000);

}  // namespace
}  // namespace afterimage
