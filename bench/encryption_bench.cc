// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// How much of a tier's speed remains with encryption? The same puts and gets, plain and encrypted,
// on a disk (a folder under TMPDIR) and in memory.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/disk_tier.h"
#include "afterimage/encrypted_tier.h"
#include "afterimage/result.h"
#include "afterimage/tier.h"

namespace afterimage {
namespace {

constexpr std::uint64_t kEntries = 16;

/// A tier, encrypted or not, with everything it uses.
class Stand {
 public:
  Stand(bool on_disk, bool sealed) {
    if (on_disk) {
      folder_ = (std::filesystem::temp_directory_path() / "afterimage-bench-XXXXXX").string();
      AFI_CHECK(::mkdtemp(folder_.data()) != nullptr);
      disk_ = DiskTier::open(
                  folder_, {.log = {.capacity = 4_GiB, .append_timeout = std::chrono::seconds(30)}},
                  memory_, clock_)
                  .value();
      tier_ = disk_.get();
    } else {
      tier_ = &host_;
    }
    if (!sealed) return;
    sealed_ = std::make_unique<EncryptedTier>(
        *tier_, EncryptionKeys::parse(std::string(64, '1'), "bench").value(), memory_);
    tier_ = sealed_.get();
  }
  ~Stand() {
    sealed_.reset();
    disk_.reset();
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  Stand(const Stand&) = delete;
  Stand& operator=(const Stand&) = delete;

  Tier& tier() { return *tier_; }
  MemoryBudget& memory() { return memory_; }

 private:
  std::string folder_;
  SystemClock clock_;
  MemoryBudget memory_{2_GiB};
  MemoryBudget budget_{1_GiB};
  HostTier host_{budget_};
  std::unique_ptr<DiskTier> disk_;
  std::unique_ptr<EncryptedTier> sealed_;
  Tier* tier_ = nullptr;
};

TierKey key_of(std::uint64_t n) {
  TierKey key;
  key.bytes.fill(static_cast<std::byte>(n));
  return key;
}

void put_all(Stand& stand, const std::vector<std::byte>& bytes) {
  for (std::uint64_t n = 0; n < kEntries; ++n) {
    AFI_CHECK(stand.tier().put(key_of(n), {}, bytes).has_value());
  }
  AFI_CHECK(stand.tier().flush().has_value());
}

void put(benchmark::State& state, bool on_disk, bool sealed) {
  Stand stand(on_disk, sealed);
  const std::vector<std::byte> bytes(static_cast<std::size_t>(state.range(0)), std::byte{7});
  for (auto _ : state) put_all(stand, bytes);
  state.SetBytesProcessed(state.iterations() * state.range(0) * static_cast<long>(kEntries));
}

void get(benchmark::State& state, bool on_disk, bool sealed) {
  Stand stand(on_disk, sealed);
  put_all(stand, std::vector<std::byte>(static_cast<std::size_t>(state.range(0)), std::byte{7}));
  for (auto _ : state) {
    for (std::uint64_t n = 0; n < kEntries; ++n) {
      const auto entry = stand.tier().get(key_of(n), stand.memory());
      AFI_CHECK(entry.has_value() && entry->has_value());
      benchmark::DoNotOptimize((*entry)->bytes.data());
    }
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * static_cast<long>(kEntries));
}

void BM_PutMemoryPlain(benchmark::State& state) { put(state, false, false); }
void BM_PutMemoryEncrypted(benchmark::State& state) { put(state, false, true); }
void BM_GetMemoryPlain(benchmark::State& state) { get(state, false, false); }
void BM_GetMemoryEncrypted(benchmark::State& state) { get(state, false, true); }
void BM_PutDiskPlain(benchmark::State& state) { put(state, true, false); }
void BM_PutDiskEncrypted(benchmark::State& state) { put(state, true, true); }
void BM_GetDiskPlain(benchmark::State& state) { get(state, true, false); }
void BM_GetDiskEncrypted(benchmark::State& state) { get(state, true, true); }

#define AFI_SIZES RangeMultiplier(16)->Range(64 << 10, 16 << 20)->UseRealTime()
BENCHMARK(BM_PutMemoryPlain)->AFI_SIZES;
BENCHMARK(BM_PutMemoryEncrypted)->AFI_SIZES;
BENCHMARK(BM_GetMemoryPlain)->AFI_SIZES;
BENCHMARK(BM_GetMemoryEncrypted)->AFI_SIZES;
BENCHMARK(BM_PutDiskPlain)->AFI_SIZES;
BENCHMARK(BM_PutDiskEncrypted)->AFI_SIZES;
BENCHMARK(BM_GetDiskPlain)->AFI_SIZES;
BENCHMARK(BM_GetDiskEncrypted)->AFI_SIZES;

}  // namespace
}  // namespace afterimage
