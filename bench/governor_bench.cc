// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// What does governing cost: a step, a tick of the controller that reads the machine's memory, and
// returning a whole GiB of entries to the system, compared with what the kernel alone takes for that?
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "afterimage/pressure.h"
#include "afterimage/result.h"
#include "afterimage/reuse.h"
#include "afterimage/reuse_stats.h"
#include "foundation/platform/random.h"
#include "policy/pressure/governor.h"
#include "policy/pressure/linux_gauges.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;

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
         .ledger = {.used = 1_GiB, .evictable = 256_MiB},
         .sample =
             MemorySample{.taken_at = now, .total = 16_GiB, .used = others + 1_GiB, .ours = 1_GiB}},
        options);
    state = made.state;
    benchmark::DoNotOptimize(made.actions.release);
  }
  bench.SetItemsProcessed(bench.iterations());
}
BENCHMARK(BM_GovernorStep);

/// A controller over caches of `budget`.
std::unique_ptr<Reuse> governed(std::shared_ptr<PressureGauge> gauge, Bytes budget,
                                const Clock& clock) {
  PressureOptions pressure{.gauge = std::move(gauge), .governor = {}, .own_thread = false};
  pressure.governor.reserve = 64_MiB;
  return Reuse::create({.budget = budget, .pressure = pressure}, Secret{}, clock).value();
}

/// Reads /proc, steps, and finds nothing to evict.
void BM_KeeperTick(benchmark::State& bench) {
  const SystemClock clock;
  const SystemFiles files;
  const auto reuse = governed(std::make_shared<ProcGauge>(files), 1_MiB, clock);
  for (auto _ : bench) benchmark::DoNotOptimize(reuse->pressure()->tick());
  bench.SetItemsProcessed(bench.iterations());
}
BENCHMARK(BM_KeeperTick);

/// 1 GiB of encoder outputs, from a failed allocation until the system has all of it.
void BM_GiveBackGiB(benchmark::State& bench) {
  const SystemClock clock;
  for (auto _ : bench) {
    Bytes used = 1_GiB;
    const auto reuse = governed(std::make_shared<EngineGauge>([&]() -> Result<GaugeReading> {
                                  return GaugeReading{.total = 4_GiB, .used = used};
                                }),
                                1_GiB, clock);
    for (unsigned n = 0; n < 1024; ++n) {
      EncoderKey key;
      std::memcpy(key.bytes.data(), &n, sizeof n);
      const auto kept = reuse->encoder().get_or_encode(key, Modality::kImage, [] {
        return Result<EncoderOutput>(EncoderOutput{{.dtype = DType::kF32,
                                                    .shape = Shape{1024, 256},
                                                    .bytes = std::vector<std::byte>(1U << 20U)}});
      });
      AFI_CHECK(kept.has_value() && kept->resident());
    }
    used = 2_GiB;
    const auto began = std::chrono::steady_clock::now();
    reuse->pressure()->tick(4_GiB);
    bench.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    AFI_CHECK(reuse->stats().used == 0_B);
  }
}
BENCHMARK(BM_GiveBackGiB)->UseManualTime()->Iterations(3);

/// The limit: the kernel reclaims 1 GiB of written memory.
void BM_KernelTakesBackGiB(benchmark::State& bench) {
  constexpr std::size_t kSize = std::size_t{1} << 30U;
  for (auto _ : bench) {
    void* memory =
        ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    AFI_CHECK(memory != MAP_FAILED);
    std::memset(memory, 1, kSize);
    const auto began = std::chrono::steady_clock::now();
    ::munmap(memory, kSize);
    bench.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
}
BENCHMARK(BM_KernelTakesBackGiB)->UseManualTime()->Iterations(3);

}  // namespace
}  // namespace afterimage
