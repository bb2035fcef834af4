// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/pressure/testing/fake_gpu_memory.h"

#include <atomic>

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr unsigned kDevices = 2;

struct Memory {
  std::atomic<std::uint64_t> total{1024 * kMiB};
  std::atomic<std::uint64_t> reserved{64 * kMiB};
  std::atomic<std::uint64_t> free{512 * kMiB};
  std::atomic<int> failing_reads{0};
  std::atomic<int> failing_start{0};
};

Memory& memory() {
  static Memory one;
  return one;
}

/// As nvml.h lays it out.
struct NvmlMemoryV2 {
  unsigned int version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};

}  // namespace

namespace afterimage::testing::fake_gpu_memory {

std::string library() { return AFTERIMAGE_FAKE_GPU_MEMORY; }

void set(std::uint64_t total, std::uint64_t reserved, std::uint64_t free) {
  memory().total = total;
  memory().reserved = reserved;
  memory().free = free;
}
void fail_reads(int code) { memory().failing_reads = code; }
void fail_start(int code) { memory().failing_start = code; }

}  // namespace afterimage::testing::fake_gpu_memory

// The names are those of nvml.h and rocm_smi.h.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

int nvmlInit_v2() { return memory().failing_start; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  if (index >= kDevices) return 2;
  *device = &memory();
  return 0;
}
int nvmlDeviceGetMemoryInfo_v2(void* device, void* memory_info) {
  auto* const info = static_cast<NvmlMemoryV2*>(memory_info);
  constexpr unsigned int kVersion = sizeof(NvmlMemoryV2) | (2U << 24U);
  if (device != &memory() || info->version != kVersion) return 25;
  if (memory().failing_reads != 0) return memory().failing_reads;
  info->total = memory().total;
  info->reserved = memory().reserved;
  info->free = memory().free;
  info->used = info->total - info->free;
  return 0;
}

int rsmi_init(std::uint64_t /*flags*/) { return memory().failing_start; }
int rsmi_shut_down() { return 0; }
int rsmi_dev_memory_total_get(std::uint32_t device, unsigned int /*type*/, std::uint64_t* total) {
  if (device >= kDevices) return 8;
  *total = memory().total;
  return memory().failing_reads;
}
int rsmi_dev_memory_usage_get(std::uint32_t device, unsigned int /*type*/, std::uint64_t* used) {
  if (device >= kDevices) return 8;
  *used = memory().total - memory().free;
  return memory().failing_reads;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
